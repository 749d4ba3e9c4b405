#include "common/io/process.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/signals.hpp"

namespace roll::io {
namespace {

using std::chrono::seconds;

Spawn shell(const std::string& script) {
    Spawn spawn;
    spawn.arguments = {"/bin/sh", "-c", script};
    spawn.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
    return spawn;
}

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    return text;
}

int wait_status(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
}

TEST(Process, GetsItsArgumentsEnvironmentDirectoryAndDescriptorsAndNothingElse) {
    Pipe pipe = make_pipe().value();
    Spawn spawn = shell("echo $GREETING $HOME $PWD >&7; ls /proc/self/fd | tr '\\n' ' ' >&7");
    spawn.directory = "/usr";
    spawn.descriptors = {{pipe.write.get(), 7}};
    const auto pid = io::spawn(spawn);
    ASSERT_TRUE(pid) << pid.error().message;
    pipe.write.reset();
    // Descriptor 3 is opened by ls itself.
    EXPECT_EQ(read_all(pipe.read.get()), "hello /usr\n0 1 2 3 7 ");
    EXPECT_EQ(wait_status(*pid), 0);
}

TEST(Process, TheFirstProcessOfANamespaceTakesAllOthersOfItAlong) {
    Pipe pipe = make_pipe().value();
    Spawn spawn = shell("echo $$ $(ls -d /proc/1); env -i setsid sleep 600 & read line");
    Pipe input = make_pipe().value();
    spawn.descriptors = {{input.read.get(), 0}, {pipe.write.get(), 1}};
    spawn.pid_namespace = true;
    const auto pid = io::spawn(spawn);
    if (!pid) GTEST_SKIP() << pid.error().message;
    pipe.write.reset();
    input.read.reset();
    char buffer[64];
    const ssize_t n = ::read(pipe.read.get(), buffer, sizeof buffer);
    EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0))),
              "1 /proc/1\n");
    ::kill(*pid, SIGKILL);
    EXPECT_EQ(wait_status(*pid), SIGKILL);
    EXPECT_EQ(read_all(pipe.read.get()), "");  // no process has the pipe open
}

TEST(Process, RunsOnTheCpusThatItGetsAndNoOthers) {
    Pipe pipe = make_pipe().value();
    Spawn spawn = shell("grep Cpus_allowed_list /proc/self/status");
    spawn.descriptors = {{pipe.write.get(), 1}};
    spawn.cpus = {::sched_getcpu()};
    const auto pid = io::spawn(spawn);
    ASSERT_TRUE(pid) << pid.error().message;
    pipe.write.reset();
    EXPECT_EQ(read_all(pipe.read.get()),
              "Cpus_allowed_list:\t" + std::to_string(spawn.cpus[0]) + "\n");
    EXPECT_EQ(wait_status(*pid), 0);
}

TEST(Process, LooksForTheProgramInThePathThatItGets) {
    Spawn spawn;
    spawn.arguments = {"true"};
    spawn.environment = {"PATH=/nowhere"};
    EXPECT_EQ(io::spawn(spawn).error().code, ErrorCode::NotFound);
    spawn.environment = {"PATH=/usr/bin:/bin"};
    const auto pid = io::spawn(spawn);
    ASSERT_TRUE(pid);
    EXPECT_EQ(wait_status(*pid), 0);
}

TEST(Process, SaysWhatCannotBeRun) {
    Spawn spawn = shell("true");
    spawn.arguments[0] = "/nowhere/sh";
    EXPECT_EQ(io::spawn(spawn).error().message,
              "cannot run /nowhere/sh: No such file or directory");
    spawn.arguments[0] = "/usr";
    EXPECT_EQ(io::spawn(spawn).error().code, ErrorCode::InvalidArgument);
    spawn = shell("true");
    spawn.directory = "/nowhere";
    EXPECT_EQ(io::spawn(spawn).error().message,
              "cannot enter directory /nowhere: No such file or directory");
}

TEST(Process, BlockedSignalsReachTheProgramAllTheSame) {
    const Descriptor queue = queue_signals({SIGUSR1});
    const auto pid = io::spawn(shell("kill -USR1 $$; exit 3"));
    ASSERT_TRUE(pid);
    const int status = wait_status(*pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

TEST(Process, DescendantsAreFoundInOtherSessionsToo) {
    Pipe up = make_pipe().value();
    Pipe down = make_pipe().value();
    // Use descriptor 4 instead of 0, because a shell sets stdin of background processes to
    // /dev/null.
    Spawn spawn = shell("setsid sh -c 'echo up >&3; read line <&4' & wait");
    spawn.group = 0;
    spawn.descriptors = {{up.write.get(), 3}, {down.read.get(), 4}};
    const auto pid = io::spawn(spawn);
    ASSERT_TRUE(pid);
    char byte = 0;
    ASSERT_EQ(::read(up.read.get(), &byte, 1), 1);
    const auto found = descendants(*pid);
    EXPECT_GE(found.size(), 1u);
    for (const ProcessInfo& info : found) EXPECT_NE(info.group, ::getpgrp());
    for (const ProcessInfo& info : found) ::kill(info.pid, SIGKILL);
    wait_status(*pid);
    EXPECT_TRUE(descendants(*pid).empty());
}

TEST(Process, AnEndIsSeenAndAReusedNumberIsNotWaitedFor) {
    Pipe down = make_pipe().value();
    Spawn spawn = shell("read line");
    spawn.descriptors = {{down.read.get(), 0}};
    const auto pid = io::spawn(spawn);
    ASSERT_TRUE(pid);
    down.read.reset();
    const auto info = find_process(*pid);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->parent, ::getpid());
    EXPECT_FALSE(wait_ended(*pid, info->started, std::chrono::milliseconds(20)));
    EXPECT_TRUE(wait_ended(*pid, info->started + 1, seconds(60)));
    down.write.reset();
    EXPECT_TRUE(wait_ended(*pid, info->started, seconds(60)));
    wait_status(*pid);
}

}  // namespace
}  // namespace roll::io
