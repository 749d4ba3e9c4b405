#include "common/spec/train/batch_size.hpp"

#include <gtest/gtest.h>

#include "common/spec/check/train_rules.hpp"

namespace roll::spec {
namespace {

TEST(BatchSize, ParsesMegatronsSchedules) {
    const auto phases = parse_batch_schedule("0:768 250B:1536 1T:3072");
    ASSERT_TRUE(phases);
    const std::vector<BatchPhase> wanted{
        {0, 768}, {250'000'000'000, 1536}, {1'000'000'000'000, 3072}};
    EXPECT_EQ(*phases, wanted);
    EXPECT_TRUE(parse_batch_schedule("")->empty());
    for (const char* bad :
         {"5:8", "0:8 0:16", "0:8 100", "0:0", "0:8 -1:9", "0:8 1Q:9", "x", "0:8 9999999999T:4"}) {
        const auto refused = parse_batch_schedule(bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_NE(refused.error().message.find("allowed: pairs TOKENS:SIZE"), std::string::npos);
    }
}

// Walks a run step by step and compares the functions with the walk.
TEST(BatchSize, IsAFunctionOfTheSamplesAlone) {
    std::vector<BatchPhase> phases{{0, 4}, {75, 6}, {400, 16}};
    const BatchSizes sizes{phases, 16, 10};
    std::int64_t samples = 0;
    for (std::int64_t step = 0; step < 40; ++step) {
        EXPECT_EQ(samples_before(sizes, step), samples);
        const std::int64_t tokens = samples * sizes.seq_length;
        const std::int64_t size = tokens < 75 ? 4 : tokens < 400 ? 6 : 16;
        EXPECT_EQ(batch_size_at(sizes, samples), size);
        for (std::int64_t at = 0; at <= step; ++at)
            EXPECT_EQ(steps_for(sizes, samples_before(sizes, at), samples), step - at);
        EXPECT_EQ(steps_for(sizes, samples, samples + size), 1);
        EXPECT_EQ(steps_for(sizes, samples, samples + size + 1), 2);
        samples += size;
    }
    // A step that begins exactly at a threshold has the new size.
    phases = {{0, 4}, {80, 6}};
    EXPECT_EQ(batch_size_at({phases, 6, 10}, 7), 4);
    EXPECT_EQ(batch_size_at({phases, 6, 10}, 8), 6);
}

Json batch_job(const char* train) {
    return {{"data", Json::object()}, {"train", Json::parse(train)}};
}

TEST(BatchRules, RefuseSizesThatDoNotDivideAndCombinationsThatChangeTheResult) {
    const auto first = [](const Json& document) {
        const auto problems = batch_problems(document, 2);
        return problems.empty() ? "" : problems[0].path + " " + problems[0].message;
    };
    EXPECT_EQ(first(batch_job(R"({"global_batch_size": 8, "micro_batch_size": 2,
                            "batch_size_schedule": "0:4 1K:8"})")),
              "");
    EXPECT_NE(first(batch_job(R"({"global_batch_size": 8, "micro_batch_size": 2,
                            "batch_size_schedule": "0:6 1K:8"})"))
                  .find("has batches of 6 samples; allowed: multiples of micro_batch_size 2 x dp "
                        "2 = 4"),
              std::string::npos);
    EXPECT_NE(first(batch_job(R"({"global_batch_size": 16, "batch_size_schedule": "0:4 1K:8"})"))
                  .find("but train.global_batch_size is 16; set train.global_batch_size to 8"),
              std::string::npos);
    EXPECT_NE(
        first(batch_job(R"({"balance": true, "normalize": "microbatch"})")).find("train.balance"),
        std::string::npos);
    EXPECT_NE(first(batch_job(R"({"microbatch_limit": "1GiB", "lora": {"dropout": 0.1}})"))
                  .find("train.microbatch_limit cannot be used with dropout"),
              std::string::npos);
    EXPECT_EQ(first(batch_job(R"({"balance": false, "normalize": "microbatch"})")), "");
    Json split = batch_job(R"({"microbatch_limit": "1GiB"})");
    for (const char* const refused :
         {R"({"activation_limit": "1GiB"})", R"({"schedule": "interleaved"})", R"({"group": 3})"}) {
        split["parallel"] = Json::parse(refused);
        EXPECT_EQ(first(split), "");
        split["parallel"]["pp"] = 2;
        EXPECT_NE(first(split).find("train.microbatch_limit cannot be used with parallel."),
                  std::string::npos)
            << refused;
    }
}

}  // namespace
}  // namespace roll::spec
