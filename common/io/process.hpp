// Starting other programs and finding what they started. No shell is ever involved.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::io {

struct Spawn {
    std::vector<std::string>
        arguments;  // the program first; without a '/' it is looked for in PATH
    std::vector<std::string> environment;  // "NAME=value", all of it
    std::string directory{};               // empty: ours
    // {ours, theirs}. Standard ones not named are /dev/null; every other is closed.
    std::vector<std::pair<int, int>> descriptors{};
    std::optional<pid_t> group{};  // 0: a new process group; else it joins that one
    bool new_session = false;
    std::vector<int> cpus{};        // the only ones that it may run on; empty: as we may
    std::optional<mode_t> umask{};  // none: ours
    int death_signal = 0;           // what it gets when the thread that spawned it ends; 0: nothing
    int cgroup = -1;                // its cgroup.procs, open for writing; -1: our cgroup
    // It is process 1 of a new PID namespace with its own /proc: the kernel ends all others of the
    // namespace before it ends. Without CAP_SYS_ADMIN in a new user namespace too, under our uid.
    bool pid_namespace = false;
};

// Returns once the program runs. The caller waits for it (waitpid). The signal mask and handlers
// are reset. Error NotFound: no such program or directory; InvalidArgument: it cannot be executed;
// Failed: the host refuses what `cgroup` or `pid_namespace` asks for.
Result<pid_t> spawn(const Spawn& spawn);

// This process's environment as Spawn takes it.
std::vector<std::string> current_environment();

// The path of a program beside the running one.
std::string own_program();

struct Pipe {
    Descriptor read;
    Descriptor write;
};
Result<Pipe> make_pipe();  // close-on-exec

struct ProcessInfo {
    pid_t pid = 0;
    pid_t parent = 0;
    pid_t group = 0;
    char state = '?';           // 'Z': ended and not yet waited for
    std::uint64_t started = 0;  // clock ticks since boot: with the pid it names a process
};
std::optional<ProcessInfo> find_process(pid_t pid);

// False once the process has ended. Reaps it if it is a child of this process.
bool is_alive(pid_t pid);

// The process that a pid file names, if it is alive and its program has this name.
std::optional<pid_t> running(const std::filesystem::path& pid_file, const std::string& program);

// All live processes below this one in the tree, whatever group or session they moved to.
std::vector<ProcessInfo> descendants(pid_t ancestor);

// True once the process has ended; false if it has not after that time. For processes that are not
// our children too.
bool wait_ended(pid_t pid, std::uint64_t started, std::chrono::milliseconds timeout);

// Names this boot of the machine: process numbers of another one mean nothing.
std::string boot_id();

// Orphans below this process become its children.
void become_subreaper();

}  // namespace roll::io
