#include "daemon/files/job_file.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/temporary_folder.hpp"

namespace roll::files {
namespace {

namespace fs = std::filesystem;

class JobFile : public ::testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(output() / "logs/attempt-1");
        fs::create_directories(state() / "keys");
        fs::create_directories(top / "work");
        write(state() / "web.token", "SECRET");
    }
    static void write(const fs::path& file, const std::string& text) {
        std::ofstream(file) << text;
    }
    fs::path output() const { return top / "output"; }
    fs::path state() const { return top / "state"; }
    fs::path log() const { return output() / "logs/attempt-1/rank-0.log"; }
    void link_log(const fs::path& target) const {
        fs::remove(log());
        fs::create_symlink(target, log());
    }
    // Returns the text of the log, or the error's code and message.
    std::string read(const std::string& log_name = {}, const std::string& workdir = {}) const {
        const auto file = open_log({output(), log_name, workdir, "train"}, 1, 0, state());
        if (!file) return std::string(name_of(file.error().code)) + ": " + file.error().message;
        return read_at(*file, 0, file->size).value();
    }

    TemporaryFolder top;
};

TEST_F(JobFile, ALinkInTheOutputIsRefusedWhereverItLeads) {
    write(top / "secret", "SECRET");
    for (const fs::path& target : {top / "secret", fs::path("../../../secret"),
                                   state() / "web.token", fs::path("/dev/zero")}) {
        link_log(target);
        EXPECT_EQ(
            read(),
            "refused: " + log().string() +
                " is a symbolic link; rolld follows only links to files that the job file names");
    }
    fs::remove(log());
    write(top / "rank-0.log", "SECRET");
    fs::remove_all(output() / "logs/attempt-1");
    fs::create_symlink(top, output() / "logs/attempt-1");
    EXPECT_EQ(read(),
              "refused: " + log().parent_path().string() +
                  " is not a directory, or is a symbolic link, which rolld does not follow");
    EXPECT_FALSE(newest_with_logs({output()}, 1));
    fs::create_symlink(top / "secret", output() / "metrics.jsonl");
    EXPECT_FALSE(open_metrics({output()}));
}

TEST_F(JobFile, OnlyRegularFilesAreRead) {
    ASSERT_EQ(::mkfifo(log().c_str(), 0600), 0);
    EXPECT_EQ(read(), "refused: " + log().string() + " is not a regular file");
    fs::remove(log());
    fs::create_directory(log());
    EXPECT_EQ(read(), "refused: " + log().string() + " is not a regular file");
    EXPECT_EQ(open_metrics({output()}).error().code, ErrorCode::NotFound);
}

TEST_F(JobFile, ALinkToTheLogThatTheJobFileNamesIsFollowed) {
    write(top / "work/train-7-0.out", "hello\n");
    link_log(top / "work/train-7-0.out");
    const std::string work = top / "work";
    EXPECT_EQ(read("train-%j-%r.out", work), "hello\n");
    EXPECT_EQ(read("../work/%x-%4A-0.out", work), "hello\n");
    EXPECT_EQ(read((top / "work/train-%j-%t.out").string()), "hello\n");
    for (const char* other : {"%N-%j-%r.out", "%N%N-%j-%r.out"})
        EXPECT_EQ(read(other, work), "hello\n") << other;
    for (const char* other : {"%x", "%x%x-%r.out", "%s-%j-%r.out", "%u-%j-%r.out", "train-%j.log",
                              "%j", "/%j/train-%j-%r.out", "../train-%j-%r.out"})
        EXPECT_NE(read(other, work), "hello\n") << other;
    fs::rename(top / "work", top / "home");
    fs::create_directory_symlink(top / "home", top / "work");
    EXPECT_EQ(read("train-%j-%r.out", work), "hello\n") << "the user's directory may be a link";
}

TEST_F(JobFile, TheNameOfTheJobInALogsNameIsTheJobsOwn) {
    write(top / "work/private", "SECRET");
    link_log(top / "work/private");
    EXPECT_NE(read("%x", top / "work"), "SECRET");
    EXPECT_NE(read("%u", top / "work"), "SECRET");
    EXPECT_NE(read((top / "%x" / "%x").string()), "SECRET");
    EXPECT_EQ(places_of("/out", {{"name", "a"}, {"sbatch", {{"name", "b c"}}}}).job_name, "b c");
    EXPECT_EQ(places_of("/out", {{"name", "a"}, {"sbatch", Json::object()}}).job_name, "a");
}

TEST_F(JobFile, ANamedLogIsNoWayToOtherFiles) {
    const std::string work = top / "work";
    link_log(top / "work/a.out");
    fs::create_symlink(state() / "web.token", top / "work/a.out");
    EXPECT_NE(read("a.out", work), "SECRET") << "the named log is itself a link";
    link_log(state() / "web.token");
    EXPECT_EQ(read((state() / "web.token").string()),
              "refused: " + (fs::canonical(state()) / "web.token").string() +
                  " is in rolld's state directory, so it is not shown as a log");
    fs::create_directory_symlink(state(), top / "work/link");
    link_log(top / "work/link/web.token");
    EXPECT_NE(read("link/web.token", work), "SECRET");
}

TEST_F(JobFile, APieceEndsWithACharacterAndStartsWhereTheLastOneEnded) {
    write(log(), "ab\u00e9\u20ac\n");
    const auto file = open_log({output()}, 1, 0, state()).value();
    const auto piece = [&](std::optional<std::uint64_t> from, std::uint64_t count) {
        return read_piece(file, from, count).value();
    };
    EXPECT_EQ(piece(0, 3).bytes, "ab");
    EXPECT_EQ(piece(2, 4).bytes, "\u00e9");
    EXPECT_EQ(piece(4, 100).bytes, "\u20ac\n");
    EXPECT_EQ(piece(std::nullopt, 4).from, 4);
    EXPECT_EQ(piece(1000, 4).bytes, "\u20ac\n") << "the head was cut off";
    write(log(), std::string(3 * kPieceBytesMax, 'x'));
    const auto large = open_log({output()}, 1, 0, state()).value();
    EXPECT_EQ(read_piece(large, 0, UINT64_MAX).value().bytes.size(), kPieceBytesMax);
}

TEST_F(JobFile, TheNewestAttemptWithLogsIsFound) {
    fs::create_directories(output() / "logs/attempt-3");
    EXPECT_EQ(newest_with_logs({output()}, 5), 3);
    EXPECT_EQ(newest_with_logs({output()}, 2), 1);
    EXPECT_FALSE(newest_with_logs({top / "none"}, 5));
    EXPECT_FALSE(newest_with_logs({output()}, 0));
}

}  // namespace
}  // namespace roll::files
