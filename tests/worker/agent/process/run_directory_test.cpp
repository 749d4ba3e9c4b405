#include "worker/agent/process/run_directory.hpp"

#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::agent {
namespace {

class RunDirectoryTest : public testing::Test {
  protected:
    void SetUp() override { reopen(); }
    // Opens the directory as the next roll-worker does. Returns the leftovers that it finds.
    std::vector<protocol::RunningAttempt> reopen() {
        directory_.reset();
        directory_.emplace(RunDirectory::open(folder_ / "node", "session").value());
        return directory_->end_leftovers();
    }
    static protocol::RunningAttempt ended(std::uint64_t job, int exit_code) {
        protocol::RunningAttempt entry;
        entry.attempt = {.job = {job}, .token = {1, 1}};
        entry.phase = protocol::Phase::Ended;
        entry.outcome = Outcome::App;
        entry.exit_code = exit_code;
        return entry;
    }
    std::filesystem::path journal() const { return folder_ / "node/attempts"; }

    TemporaryFolder folder_;
    std::optional<RunDirectory> directory_;
};

TEST_F(RunDirectoryTest, TheNewestWordOnAnAttemptCountsUntilItIsForgotten) {
    ASSERT_TRUE(directory_->remember(ended(1, 3)));
    ASSERT_TRUE(directory_->remember(ended(2, 4)));
    ASSERT_TRUE(directory_->remember(ended(2, 5)));
    auto left = reopen();
    ASSERT_EQ(left.size(), 2u);
    EXPECT_EQ(left[1].exit_code, 5);
    directory_->forget(left[0].attempt);
    directory_->forget(left[1].attempt);
    EXPECT_TRUE(reopen().empty());
}

TEST_F(RunDirectoryTest, TheNextRollWorkerGetsTheProgramsThatAGuardDidNotRun) {
    const Program program = {{"/bin/podman", "rm", "a"}, {"HOME=/own"}, "/", ""};
    const AttemptKey key = ended(1, 0).attempt;
    ASSERT_TRUE(directory_->set_guard(key, 999'999'999, 1, {program}));
    ASSERT_EQ(reopen().size(), 1u);
    EXPECT_EQ(directory_->left_over(), std::vector<Program>{program});
    directory_->forget(key);
    ASSERT_TRUE(reopen().empty());
    EXPECT_TRUE(directory_->left_over().empty());
}

TEST_F(RunDirectoryTest, ProgramsThatCannotBeReadHideNoAttempt) {
    const Program program = {{"/bin/podman", "rm", "a"}, {"HOME=/own"}, "/", ""};
    ASSERT_TRUE(directory_->set_guard(ended(1, 0).attempt, 999'999'999, 1, {program}));
    std::string line = read_file(journal()).value();
    line.resize(line.find('\n') + 1);
    std::ofstream(journal()) << line.replace(line.find(R"(["/bin/podman")"), 1, "[7,");
    EXPECT_EQ(reopen().size(), 1u);
    EXPECT_TRUE(directory_->left_over().empty());
}

TEST_F(RunDirectoryTest, AnAttemptWithoutAProcessLeavesNothing) {
    protocol::RunningAttempt entry = ended(1, 0);
    entry.phase = protocol::Phase::Starting;
    ASSERT_TRUE(directory_->remember(entry));
    EXPECT_TRUE(reopen().empty());
}

TEST_F(RunDirectoryTest, ALineThatWasNotWrittenWholeHurtsNoOther) {
    ASSERT_TRUE(directory_->remember(ended(1, 3)));
    std::ofstream(journal(), std::ios::app) << R"({"guard": 12, "bo)";
    ASSERT_EQ(reopen().size(), 1u);
    ASSERT_TRUE(directory_->remember(ended(2, 4)));
    EXPECT_EQ(reopen().size(), 2u);
}

TEST_F(RunDirectoryTest, TheJournalHoldsWhatIsNeededAndNotMuchMore) {
    ASSERT_TRUE(directory_->remember(ended(1, 3)));
    for (std::uint64_t job = 2; job < 20'000; ++job) {
        ASSERT_TRUE(directory_->remember(ended(job, 0)));
        directory_->forget(ended(job, 0).attempt);
    }
    EXPECT_LT(std::filesystem::file_size(journal()), 5u << 20);
    const auto left = reopen();
    ASSERT_LE(left.size(), 2u);  // the end of the last attempt may be reported twice
    EXPECT_EQ(left[0].exit_code, 3);
}

}  // namespace
}  // namespace roll::agent
