#include "worker/agent/job_files.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/io/sha256.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/agent/process/launch.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

protocol::StartOrder order(std::uint64_t job, const std::vector<spec::StagedFile>& files) {
    protocol::StartOrder order;
    order.attempt = {.job = {job}, .token = {1, 1}};
    Json list = Json::array();
    for (const spec::StagedFile& file : files) list.push_back(spec::to_json(file));
    order.document = Json{{"files", list}}.dump();
    order.files = true;
    return order;
}

class JobFilesTest : public ::testing::Test {
  protected:
    // Answers requests until there is none. Returns their number.
    int serve(JobFiles& files) {
        int answered = 0;
        for (auto request = files.request(now); request; request = files.request(now)) {
            const auto bytes = stored.find(request->piece);
            files.take({.piece = request->piece,
                        .trouble = bytes == stored.end() ? "lost" : "",
                        .bytes = bytes == stored.end() ? "" : bytes->second});
            ++answered;
        }
        return answered;
    }
    // Passes on a start order. Returns whether it was held back, or why it is refused.
    static std::string start(JobFiles& files, const protocol::StartOrder& order) {
        protocol::Answer answer{.start = {order}};
        files.hold_back(answer);
        return answer.start.empty() ? "held back" : answer.start[0].refused;
    }
    std::string store(const std::string& bytes) {
        return stored.emplace(io::sha256(bytes), bytes).first->first;
    }
    std::string content(const std::string& path) const {
        return read_file(top / path).value_or("");
    }

    TemporaryFolder top;
    std::map<std::string, std::string> stored{};
    Instant now{};
};

TEST_F(JobFilesTest, FilesAreLaidOutFromTheirPiecesEachFetchedOnce) {
    JobFiles files(top);
    const std::string a = store("first "), b = store("second");
    const auto first = order(1, {{.name = "x", .bytes = 12, .pieces = {a, b}},
                                 {.name = "bin/y", .bytes = 6, .executable = true, .pieces = {b}},
                                 {.name = "empty"}});
    EXPECT_EQ(start(files, first), "held back");
    EXPECT_EQ(start(files, first), "held back");
    EXPECT_FALSE(files.take_news());
    EXPECT_EQ(serve(files), 2);
    EXPECT_TRUE(files.take_news());
    EXPECT_FALSE(files.take_news());
    EXPECT_EQ(start(files, first), "");
    EXPECT_EQ(content("1-1-1/x"), "first second");
    EXPECT_EQ(content("1-1-1/bin/y"), "second");
    EXPECT_TRUE(fs::exists(top / "1-1-1/empty"));
    EXPECT_NE(fs::status(top / "1-1-1/bin/y").permissions() & fs::perms::owner_exec,
              fs::perms::none);
    EXPECT_EQ(start(files, order(2, {{.name = "z", .bytes = 6, .pieces = {b}}})), "");
    EXPECT_EQ(serve(files), 0) << "the pieces are kept";
    protocol::StartOrder without = order(3, {});
    without.files = false;
    EXPECT_EQ(start(files, without), "");
    files.remove(first.attempt);
    EXPECT_FALSE(fs::exists(top / "1-1-1"));
    EXPECT_EQ(content("2-1-1/z"), "second");
}

TEST_F(JobFilesTest, AnAnswerThatDoesNotComeIsAskedForAgainAndAWrongOneIsNotUsed) {
    JobFiles files(top);
    const std::string a = store("right");
    const auto waits = order(1, {{.name = "x", .bytes = 5, .pieces = {a}}});
    EXPECT_EQ(start(files, waits), "held back");
    EXPECT_TRUE(files.request(now));
    EXPECT_FALSE(files.request(now));
    now += Millis(5000);
    EXPECT_TRUE(files.request(now));
    files.take({.piece = a, .trouble = "", .bytes = "wrong"});
    EXPECT_EQ(start(files, waits), "held back");
    EXPECT_EQ(serve(files), 1);
    EXPECT_EQ(content("1-1-1/x"), "right");
}

TEST_F(JobFilesTest, FilesOfAttemptsThatNoLongerStartAreRemoved) {
    JobFiles files(top);
    const std::string a = store("abc");
    const auto first = order(1, {{.name = "x", .bytes = 3, .pieces = {a}}});
    EXPECT_EQ(start(files, first), "held back");
    EXPECT_EQ(start(files, order(2, {{.name = "x", .bytes = 3, .pieces = {a}}})), "held back");
    serve(files);
    EXPECT_EQ(start(files, order(3, {{.name = "x", .pieces = {std::string(64, '0')}}})),
              "held back");
    files.keep_only([](const AttemptKey& key) { return key.job == JobId{2}; });
    EXPECT_FALSE(fs::exists(top / "1-1-1"));
    EXPECT_EQ(content("2-1-1/x"), "abc");
    EXPECT_FALSE(files.request(now + Millis(5000))) << "job 3 no longer waits";
    EXPECT_EQ(start(files, first), "") << "the files are laid out again, from the kept piece";
    EXPECT_EQ(content("1-1-1/x"), "abc");
}

TEST_F(JobFilesTest, WhatCannotBeLaidOutIsReported) {
    JobFiles files(top);
    const std::string a = store("abc");
    const std::vector orders = {
        order(1, {{.name = "x", .bytes = 5, .pieces = {std::string(64, '0')}}}),
        order(2, {{.name = "../x", .bytes = 3, .pieces = {a}}}),
        order(3, {{.name = "x", .bytes = 4, .pieces = {a}}}),
        order(4, {{.name = "x", .bytes = 3, .pieces = {a}}})};
    for (const auto& one : orders) EXPECT_EQ(start(files, one), "held back");
    serve(files);
    EXPECT_EQ(start(files, orders[0]), "the job's files cannot be fetched: lost");
    EXPECT_NE(start(files, orders[1]).find("is ../x; allowed:"), std::string::npos);
    EXPECT_EQ(start(files, orders[2]),
              "the pieces of the file x have 3 bytes; the job file says 4");
    EXPECT_EQ(start(files, orders[3]), "");
    EXPECT_FALSE(fs::exists(top / "x"));
}

TEST_F(JobFilesTest, PiecesBeyondTheLimitAreRemovedTheOldestFirst) {
    JobFiles files(top, 10);
    const std::string a = store("aaaaaa"), b = store("bbbbbb");
    start(files, order(1, {{.name = "x", .bytes = 12, .pieces = {a, b}}}));
    EXPECT_EQ(serve(files), 2);
    EXPECT_EQ(content("1-1-1/x"), "aaaaaabbbbbb");
    start(files, order(2, {{.name = "x", .bytes = 6, .pieces = {b}}}));
    EXPECT_EQ(serve(files), 0);
    start(files, order(3, {{.name = "x", .bytes = 6, .pieces = {a}}}));
    EXPECT_EQ(serve(files), 1);
}

TEST(FilesOfACommand, AreNamedInItsWordsAndItsEnvironment) {
    auto command = order(7, {});
    command.kind = "command";
    command.output = "/runs/a-7";
    command.slots = {0};
    command.document =
        R"({"command": ["{files}/a", "x={files}/b:{files}"], "workdir": "{files}/sub"})";
    const LaunchSite site{
        .programs = "/opt", .session = "s1", .files = "/files", .environment = {}};
    const auto plan = plan_launch(command, site);
    ASSERT_TRUE(plan);
    const Program& program = plan->programs[0];
    EXPECT_EQ(program.arguments,
              (std::vector<std::string>{"/files/7-1-1/a", "x=/files/7-1-1/b:/files/7-1-1"}));
    EXPECT_EQ(program.directory, "/files/7-1-1/sub");
    EXPECT_EQ(std::ranges::count(program.environment, "ROLL_FILES=/files/7-1-1"), 1);
    command.files = false;
    EXPECT_EQ(plan_launch(command, site)->programs[0].arguments[0], "{files}/a");
}

}  // namespace
}  // namespace roll::agent
