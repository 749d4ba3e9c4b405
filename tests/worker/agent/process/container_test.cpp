#include "worker/agent/process/container.hpp"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

using Texts = std::vector<std::string>;
using std::chrono::milliseconds;

// Waits at most 30 s until the process has ended. Returns whether it has.
bool is_reaped(pid_t pid) {
    for (const Instant until = boot_now() + Millis(30'000); boot_now() < until;) {
        if (::waitpid(pid, nullptr, WNOHANG) == pid) return true;
        std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
}

TEST(Containers, OfEnrootsVariablesOnlyTheFoldersAreThoseOfTheWorker) {
    const Texts variables = {"ENROOT_DATA_PATH=/d", "ENROOT_MOUNT_HOME=y", "ENROOT_CACHE_PATH=/c",
                             "A=1", "XDG_DATA_HOME=/x"};
    EXPECT_EQ(runtime_variables(variables),
              (Texts{"ENROOT_DATA_PATH=/d", "ENROOT_CACHE_PATH=/c", "XDG_DATA_HOME=/x"}));
    EXPECT_EQ(inherited(variables),
              (std::map<std::string, std::string>{{"A", "1"}, {"ENROOT_MOUNT_HOME", "y"}}));
}

TEST(LeftOver, ProgramsAllRunAtOnceWithTheirEnvironment) {
    const TemporaryFolder folder;
    const auto program = [&](const char* name) {
        return Program{{"/bin/sh", "-c", "echo $A > \"$0\"", name}, {"A=1"}, folder.string(), ""};
    };
    run_left_over({program("a"), program("b")});
    for (const char* name : {"a", "b"}) EXPECT_EQ(read_file(folder / name).value_or(""), "1\n");
}

// A process in a system call on a volume that hangs does not end when it is killed. A debugger has
// the same effect: until it reaps the killed process, the parent cannot reap it.
TEST(LeftOver, AProgramThatDoesNotEndWhenItIsKilledIsNotWaitedFor) {
    const TemporaryFolder folder;
    const std::string file = folder / "pid";
    const pid_t worker = ::fork();
    if (worker == 0) {
        const char* kHang = "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 600";
        run_left_over({{{"/bin/sh", "-c", kHang, file}, {"PATH=/usr/bin:/bin"}, "/", ""}},
                      Millis(3'000));
        ::_exit(0);
    }
    for (int i = 0; i < 400 && !path_exists(file); ++i)
        std::this_thread::sleep_for(milliseconds(10));
    ASSERT_TRUE(path_exists(file));
    const pid_t program = std::stoi(read_file(file).value());
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, program, nullptr, nullptr), 0) << std::strerror(errno);
    EXPECT_TRUE(is_reaped(worker));
    ::kill(worker, SIGKILL);
    ::kill(program, SIGKILL);
    EXPECT_TRUE(is_reaped(program));
}

}  // namespace
}  // namespace roll::agent
