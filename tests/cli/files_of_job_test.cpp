#include "cli/files_of_job.hpp"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

namespace roll::cli {
namespace {

class JobFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        char pattern[] = "/tmp/roll-files-XXXXXX";
        output = ::mkdtemp(pattern);
    }
    void TearDown() override { std::filesystem::remove_all(output); }
    void append(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((output / name).parent_path());
        std::ofstream(output / name, std::ios::app) << text;
    }
    std::filesystem::path output;
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

TEST_F(JobFiles, TailGoesOnAfterTheFileWasCut) {
    Tail tail(output / "m.jsonl");
    append("m.jsonl", "one\ntwo\nthree\n");
    tail.lines();
    std::filesystem::resize_file(output / "m.jsonl", 4);
    EXPECT_TRUE(tail.lines().empty());
    append("m.jsonl", "again\n");
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
