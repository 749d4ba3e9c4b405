// The runner with programs in place of Slurm's that lie, fail and take long.
#include "daemon/pilots/runner.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace roll::pilots {
namespace {

using slurm::Submission;

class FakeSlurm : public ::testing::Test {
  protected:
    FakeSlurm() {
        site_.environment = {"PATH=" + folder_.string() + ":/usr/bin:/bin", "SQUEUE_FORMAT=%j"};
        site_.logs = folder_.string();
        queue_.name = "q";
        queue_.time = std::chrono::hours(1);
    }

    void program(const std::string& name, const std::string& body) {
        std::ofstream(folder_ / name) << "#!/bin/sh\n" << body << "\n";
        std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    }
    Submitted submit() {
        return std::get<Submitted>(run_errand(Submit{AllocationId{1}, "c.1.1", queue_}, site_));
    }
    Polled poll() { return std::get<Polled>(run_errand(Poll{}, site_)); }
    std::string cancel() {
        return std::get<Cancelled>(run_errand(pilots::Cancel{"7", "c.1.1"}, site_)).trouble;
    }

    TemporaryFolder folder_;
    slurm::Site site_;
    spec::PilotQueue queue_;
};

TEST_F(FakeSlurm, TheScriptReachesSbatch) {
    program("sbatch", "grep -q roll-worker && echo '12;lab' || echo none");
    EXPECT_EQ(submit().slurm_job, "12");
}

TEST_F(FakeSlurm, SbatchThatIsRefused) {
    program("sbatch", "echo 'sbatch: error: Invalid partition name specified' >&2; exit 1");
    const Submitted done = submit();
    EXPECT_EQ(done.result, Submission::Refused);
    EXPECT_EQ(done.reason, "sbatch: error: Invalid partition name specified");
}

TEST_F(FakeSlurm, SbatchThatCannotReachSlurmctldOrSaysNothing) {
    program("sbatch", "echo 'error: Unable to contact slurm controller' >&2; exit 1");
    EXPECT_EQ(submit().result, Submission::Unknown);
    program("sbatch", "exit 0");
    EXPECT_EQ(submit().result, Submission::Unknown);
    program("sbatch", "kill -9 $$");
    EXPECT_EQ(submit().result, Submission::Unknown);
}

TEST_F(FakeSlurm, SqueueIsAskedForOurFormatWhateverTheEnvironmentSays) {
    program("squeue", R"(case "$*" in *'--format=%i|%T|%r|%S|%e|%D|%N|%k'*) ;; *) exit 1;; esac
[ -z "$SQUEUE_FORMAT" ] || exit 1
echo '7|RUNNING|None|1|2|1|n1|roll:alloc=c.1.1')");
    const Polled done = poll();
    ASSERT_TRUE(done.rows);
    EXPECT_EQ(done.rows->front().id, "7");
}

TEST_F(FakeSlurm, SqueueThatIsCutOrFailsIsNoAnswer) {
    program("squeue", "printf '7|RUNNING|None|1|2'");
    EXPECT_FALSE(poll().rows);
    program("squeue", "echo '7|RUNNING|None|1|2|1|n1|x'; exit 1");
    EXPECT_FALSE(poll().rows);
    std::filesystem::remove(folder_ / "squeue");
    site_.environment = {"PATH=" + folder_.string()};
    EXPECT_FALSE(poll().rows);
}

TEST_F(FakeSlurm, ScancelOfWhatHasEndedIsNoTrouble) {
    program("scancel", "[ \"$*\" = '--name=roll-c.1.1 7' ]");
    EXPECT_EQ(cancel(), "");
    program("scancel", "echo 'Kill job error on job id 7: Invalid job id specified' >&2; exit 1");
    EXPECT_EQ(cancel(), "");
    program("scancel", "echo 'Job/step already completing or completed' >&2; exit 1");
    EXPECT_EQ(cancel(), "");
    program("scancel", "echo 'Access/permission denied' >&2; exit 1");
    EXPECT_EQ(cancel(), "Access/permission denied");
}

TEST_F(FakeSlurm, OutcomesComeHomeOnTheLoopAndNotAfterTheRunnerIsGone) {
    program("squeue", "exit 0");
    boost::asio::io_context io;
    int heard = 0;
    {
        Runner runner(io, site_, [&](const Outcome&) { ++heard; });
        runner.start(Poll{});
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (heard == 0 && std::chrono::steady_clock::now() < until) {
            io.run_for(std::chrono::milliseconds(20));
            io.restart();
        }
        program("squeue", "sleep 0.2");
        runner.start(Poll{});
    }
    io.run_for(std::chrono::milliseconds(400));
    EXPECT_EQ(heard, 1);
}

TEST_F(FakeSlurm, ScontrolTellsOfNodesAlsoWhereItDoesNotKnowOne) {
    const auto told = [&] {
        return std::get<NodesTold>(run_errand(AskNodes{{"n1", "n2"}}, site_)).rows;
    };
    program("scontrol", R"([ "$*" = '--oneliner show node n1,n2' ] || exit 1
[ "$SLURM_TIME_FORMAT" = %s ] || exit 1
echo 'NodeName=n1 Arch=x86_64 State=DOWN+DRAIN ThreadsPerCore=1 '
echo 'Node n2 not found'; exit 1)");
    ASSERT_TRUE(told());
    EXPECT_EQ(told()->size(), 1U);
    EXPECT_TRUE(told()->front().down);
    program("scontrol", "echo 'NodeName=n1 State=DOWN T=1'; exit 1");
    EXPECT_FALSE(told());
    program("scontrol", "printf 'NodeName=n1 State=DOWN'");
    EXPECT_FALSE(told());
    program("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1");
    EXPECT_FALSE(told());
}

}  // namespace
}  // namespace roll::pilots
