// parallel.cp in job files.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class Context : public JobFiles {};

TEST_F(Context, IsRefusedOnlyForAnswers) {
    Json json = train_file();
    json["parallel"]["cp"] = 2;
    EXPECT_EQ(problems(json), "");
    EXPECT_EQ(parse(json).spec.needs, std::vector<std::string>{"context"});
    json["data"]["train"] = {"pairs.jsonl"};
    for (const char* objective : {"dpo", "reward"}) {
        json["objective"] = objective;
        EXPECT_NE(problems(json).find(std::string("parallel.cp is 2, but objective ") + objective +
                                      " compares whole answers"),
                  std::string::npos)
            << problems(json);
    }
}

}  // namespace
}  // namespace roll::spec
