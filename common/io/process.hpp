// Starts programs without a shell, and finds the descendants of a process.
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
    // The program, followed by its arguments. A program without a '/' is searched for in PATH.
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // the whole environment as "NAME=value"
    std::string directory{};  // working directory; empty: the caller's working directory
    // Descriptors of the child. Each pair has a descriptor of the caller and the number that this
    // descriptor gets in the child. The child gets no other descriptors of the caller. A standard
    // stream without a pair becomes /dev/null.
    std::vector<std::pair<int, int>> descriptors{};
    // Process group to join; 0: a new group; nullopt: the caller's group
    std::optional<pid_t> group{};
    bool new_session = false;
    bool controlling_terminal = false;  // the child's stdin becomes its controlling terminal
    std::vector<int> cpus{};            // CPUs that the child may use; empty: the caller's CPUs
    std::optional<mode_t> umask{};      // umask of the child; nullopt: the caller's umask
    int death_signal = 0;  // signal that the child gets when the spawning thread ends; 0: no signal
    // descriptors of the files cgroup.procs in the cgroups to join
    std::vector<int> cgroups{};
    // Makes the child PID 1 of a new PID namespace with its own /proc. When the child ends, the
    // kernel kills all other processes of the namespace before the child can be reaped. Without
    // CAP_SYS_ADMIN, also creates a user namespace, in which the child keeps its uid.
    bool pid_namespace = false;
};

// Starts a program with default signal handlers and no blocked signals. Returns the program's pid
// once exec has succeeded. The caller must wait for the pid with waitpid(). Fails with NotFound if
// the program or directory does not exist, with InvalidArgument if the program cannot be executed,
// and with Failed if the host denies `cgroups` or `pid_namespace`.
Result<pid_t> spawn(const Spawn& spawn);

// Returns this process's environment in the form of Spawn::environment.
std::vector<std::string> current_environment();

// Returns the path of the running program.
std::string own_program();

struct Pipe {
    Descriptor read;
    Descriptor write;
};
Result<Pipe> make_pipe();  // both ends are close-on-exec

struct ProcessInfo {
    pid_t pid = 0;
    pid_t parent = 0;
    pid_t group = 0;
    char state = '?';  // state letter of /proc/PID/stat; 'Z' is a zombie
    // Start time in clock ticks since boot; unique together with the pid.
    std::uint64_t started = 0;
};
std::optional<ProcessInfo> find_process(pid_t pid);

// Returns false if the process has ended. Reaps the process if it has ended and is a child of this
// process.
bool is_alive(pid_t pid);

// Returns the pid in a pid file if the process with this pid is alive and runs `program`, else
// nullopt.
std::optional<pid_t> running(const std::filesystem::path& pid_file, const std::string& program);

// Returns all live descendants of a process, in any process group or session.
std::vector<ProcessInfo> descendants(pid_t ancestor);

// Like descendants(), but returns only the pids, and does not read the machine's other processes.
std::vector<pid_t> descendant_ids(pid_t ancestor);

// Waits until the process ends. Returns false on a timeout. `started` is the start time of the
// process (ProcessInfo::started). The process need not be a child.
bool wait_ended(pid_t pid, std::uint64_t started, std::chrono::milliseconds timeout);

// Returns the id of this boot of the machine. A pid recorded under another boot id is meaningless.
std::string boot_id();

// Makes this process a subreaper: orphaned descendants become its children.
void become_subreaper();

}  // namespace roll::io
