#include "daemon/slurm/run.hpp"

#include <gtest/gtest.h>

namespace roll::slurm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Command shell(const std::string& text, const std::string& input = "") {
    return {{"/bin/sh", "-c", text}, {"PATH=/usr/bin:/bin"}, input};
}

TEST(Run, BringsBothOutputsAndTheStatus) {
    const io::Finished done = run(shell("cat; echo bad >&2; exit 3", "a\nb\n"), seconds(20));
    EXPECT_FALSE(done.timed_out);
    EXPECT_EQ(done.exit_code, 3);
    EXPECT_EQ(done.output, "a\nb\n");
    EXPECT_EQ(done.errors, "bad\n");
}

TEST(Run, CarriesMoreThanAPipeHolds) {
    const std::string big(1 << 20, 'x');
    const io::Finished done = run(shell("cat", big), seconds(20));
    EXPECT_EQ(done.output, big);
}

TEST(Run, AProgramThatWritesTooMuchIsEnded) {
    const auto done =
        io::run({.arguments = {"/bin/sh", "-c", "yes"}, .environment = {"PATH=/usr/bin:/bin"}},
                {.deadline = seconds(20), .output_max = 1000});
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_EQ(done->output.size(), 1001U);
    EXPECT_EQ(done->exit_code, 137);
    EXPECT_FALSE(done->timed_out);
}

TEST(Run, EndsAtTheDeadlineWithAllThatItStarted) {
    const auto began = std::chrono::steady_clock::now();
    const io::Finished done = run(shell("echo part; sleep 100 & sleep 100"), milliseconds(200));
    EXPECT_TRUE(done.timed_out);
    EXPECT_EQ(done.output, "part\n");
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
}

TEST(Run, AProgramThatClosesItsOutputsAndHangsIsEndedToo) {
    EXPECT_TRUE(run(shell("exec >&- 2>&-; sleep 100"), milliseconds(200)).timed_out);
}

// sbatch passes its own umask to the job. With rolld's umask, other users could not read the job's
// output.
TEST(Run, ACommandHasTheUmaskThatItIsGiven) {
    Command command = shell("umask");
    command.umask = 0123;
    EXPECT_EQ(run(command, seconds(20)).output, "0123\n");
    Site site;
    site.umask = 027;
    EXPECT_EQ(submit_command({}, "k", site).umask, 027);
}

TEST(Run, AMissingProgramIsNamed) {
    const io::Finished done = run({{"no-such-sbatch"}, {"PATH=/usr/bin"}, ""}, seconds(5));
    EXPECT_EQ(done.exit_code, 127);
    EXPECT_NE(done.errors.find("no-such-sbatch"), std::string::npos);
}

}  // namespace
}  // namespace roll::slurm
