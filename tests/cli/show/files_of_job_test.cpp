#include "cli/show/files_of_job.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

class JobFiles : public ::testing::Test {
  protected:
    void append(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((output / name).parent_path());
        std::ofstream(output / name, std::ios::app) << text;
    }
    TemporaryFolder output;
};

TEST_F(JobFiles, TailYieldsWholeLinesOnce) {
    Tail tail(output / "m.jsonl");
    EXPECT_TRUE(tail.lines().empty());
    append("m.jsonl", "one\ntw");
    EXPECT_EQ(tail.lines(), std::vector<std::string>{"one"});
    append("m.jsonl", "o\nthree");
    EXPECT_EQ(tail.lines(), std::vector<std::string>{"two"});
    EXPECT_EQ(tail.rest(), "three");
    EXPECT_TRUE(tail.lines().empty());
}

// roll-worker cuts a growing log to its newest half.
TEST_F(JobFiles, TailMissesNothingOfALogWhoseHeadWasCut) {
    Tail tail(output / "r.log");
    std::string all;
    for (int i = 0; i < 2000; ++i) all += std::to_string(i) + " of many lines\n";
    append("r.log", all + "half a");
    EXPECT_EQ(tail.lines().size(), 2000u);
    // First the cut file is shorter than before, then longer.
    for (const auto& [head, more] : {std::pair(4096u, 2000u), std::pair(20480u, 30000u)}) {
        const std::string text = *read_file(output / "r.log");
        std::filesystem::remove(output / "r.log");
        append("r.log", text.substr(head) + " line\n" + std::string(more, '.') + "half a");
        const std::vector<std::string> lines = tail.lines();
        ASSERT_EQ(lines.size(), 1u);
        EXPECT_EQ(lines[0].substr(lines[0].size() - 11), "half a line");
    }
    std::filesystem::resize_file(output / "r.log", 0);
    append("r.log", "again\n");
    EXPECT_EQ(tail.lines(), std::vector<std::string>{"again"});
}

TEST_F(JobFiles, LogIsThatOfTheNewestAttempt) {
    EXPECT_FALSE(log_file(output, std::nullopt, 0));
    append("logs/attempt-2/rank-0.log", "");
    append("logs/attempt-10/rank-0.log", "");
    EXPECT_EQ(*log_file(output, std::nullopt, 0), output / "logs/attempt-10/rank-0.log");
    EXPECT_EQ(*log_file(output, 2, 0), output / "logs/attempt-2/rank-0.log");
    EXPECT_EQ(log_file(output, 2, 1).error().code, ErrorCode::NotFound);
}

TEST_F(JobFiles, LogsAreThoseOfTheRanksOrOfTheirNodes) {
    using Ints = std::vector<int>;
    Json job = {{"kind", "train"}, {"resources", {{"nodes", 2}, {"slots_per_node", 3}}}};
    EXPECT_EQ(*log_ranks(job, "all"), (Ints{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(*log_ranks(job, "0,4"), (Ints{0, 4}));
    EXPECT_FALSE(log_ranks(job, "x"));
    job["spec"] = {{"log_files", "node"}};
    EXPECT_EQ(*log_ranks(job, "all"), (Ints{0, 3}));
    EXPECT_EQ(*log_ranks(job, "4"), (Ints{3}));
    job["kind"] = "command";
    EXPECT_EQ(*log_ranks(job, "all"), (Ints{0, 1}));
}

}  // namespace
}  // namespace roll::cli
