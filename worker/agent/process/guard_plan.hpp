// The plan that roll-worker sends to a guard: the programs of an attempt, their files, and the
// checks before they start. If a guard cannot start the programs, it sends back a verdict. The plan
// and the verdict are each one line of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/agent/core/verdict.hpp"
#include "worker/agent/host/gpu_room.hpp"
#include "worker/agent/process/memory_watch.hpp"

namespace roll::agent {

// option of `podman exec` for a command that gets a terminal
constexpr const char* kTerminalOption = "--tty";

struct Program {
    std::vector<std::string> arguments;
    // Variables added to the guard's environment; they replace variables of the same name
    std::vector<std::string> environment;
    std::string directory;
    std::string log;  // path of the log for stdout and stderr; its parent directories are created
    std::vector<int> cpus{};  // CPUs to bind the program to; empty: no binding
    std::string error_log{};  // path of the log for stderr; empty: `log`
    std::string link{};       // path of a link to `log` that is created; empty: none
    // Words to put before a command, so that it runs in the program's container; empty: no
    // container. If the command gets no terminal, the word kTerminalOption is left out
    std::vector<std::string> enter{};
    friend bool operator==(const Program&, const Program&) = default;
};

// A program that must exit with 0 within its timeout before the attempt's programs start.
struct NodeCheck {
    Program program;
    int timeout_seconds = 60;
    // True if the site set this check, false if the job did. A failed check of the site is the
    // machine's fault
    bool site = false;
    friend bool operator==(const NodeCheck&, const NodeCheck&) = default;
};

// The processes of a command on all nodes of an attempt. They find each other at an address and a
// port of the first node (meeting.hpp).
struct Gang {
    bool first = false;     // true on the first node, which chooses the port
    std::string meeting;    // path of the file to which the first node writes its address and port
    std::string address;    // address of this node for other nodes; empty if unknown
    std::string host_file;  // path of the host file, which lists the gang's nodes
    std::string hosts;      // content of the host file
    int patience_seconds = 120;  // longest wait for the file `meeting`
    friend bool operator==(const Gang&, const Gang&) = default;
};

struct GuardPlan {
    // Directories to create; the first one is the job's output directory
    std::vector<std::string> directories;
    std::string launch_file;  // path of the launch file; empty: none is written
    std::string launch;
    // True for Roll's own programs: they write their logs directly, and a failure to run one is not
    // the job's fault. For any other program, the log is created at its first output.
    bool own_programs = true;
    std::vector<NodeCheck> checks{};
    std::vector<Program> programs;
    std::int64_t log_bytes_max = 0;  // maximum size of each log; 0: no limit
    // patterns that are searched for in the logs if the attempt fails
    std::vector<std::string> patterns{};
    std::vector<GpuRoom> gpus{};
    // Longest wait for the GPUs' memory to become free; after this time the attempt fails
    int gpu_wait_seconds = 50;
    std::optional<Gang> gang{};
    // Programs that run after the last process of the attempt has ended, however it ended
    std::vector<Program> after{};
    std::string cgroup{};      // the cgroup for all programs; empty: the guard's own cgroup
    MemoryLimit memory{};      // memory limit; the programs also enter its cgroup
    std::string cpu_cgroup{};  // another cgroup for all programs; it limits their CPUs
    friend bool operator==(const GuardPlan&, const GuardPlan&) = default;
};

Json json_of(const std::vector<Program>& programs);
Result<std::vector<Program>> read_programs(const Json& list);  // null: an empty list

std::string encode(const GuardPlan& plan);  // returns the plan as one line without newline
Result<GuardPlan> decode_guard_plan(std::string_view line);

std::string encode(const Verdict& verdict);
Result<Verdict> decode_verdict(std::string_view line);

}  // namespace roll::agent
