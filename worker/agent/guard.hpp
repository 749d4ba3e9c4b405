// The guard of an attempt: the process that is the parent of all its programs. roll-worker starts
// itself as one.
//
// It prepares the files, starts the programs in one process group and kills everything below it,
// other sessions included, when it is told to, when roll-worker ends (its socket does), when the
// leash runs out, or when all programs have ended. Once nothing is left below it, it says so and
// serves again: an attempt costs the start of its programs, not that of a guard.
//
//   descriptor 0  a Unix socket. Down: a GuardPlan as one line of JSON, with the descriptors of
//                 each program (its stdin, its report pipe); then "term", "stacks" and "kill".
//                 Up: "exit PROGRAM code|signal N", "leash", "failed {verdict}", "matched N...",
//                 and "gone" as the last word on an attempt; what follows at once comes together
//   descriptor 3  the leash
//   descriptor 4  the reaper's pipe (reaper.hpp)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/agent/verdict.hpp"

namespace roll::agent {

constexpr int kGuardSocket = 0;
constexpr int kGuardLeash = 3;
constexpr int kGuardReaper = 4;

struct Program {
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // beyond the guard's own, or instead of it
    std::string directory;
    std::string log;          // stdout and stderr are appended to it, its folders made for it
    std::vector<int> cpus{};  // the only ones that it runs on; empty: any
    friend bool operator==(const Program&, const Program&) = default;
};

// A GPU that must have no more than this in use before a program starts on it: what an earlier one
// held is given back some time after its end.
struct GpuRoom {
    std::string name;  // as CUDA_VISIBLE_DEVICES names it
    std::int64_t most_used_bytes = 0;
    friend bool operator==(const GpuRoom&, const GpuRoom&) = default;
};

// Runs before the programs; each must end with 0 in its time.
struct NodeCheck {
    Program program;
    int timeout_seconds = 60;
    bool site = false;  // the site's, not the job's: what fails it is a fault of the machine
    friend bool operator==(const NodeCheck&, const NodeCheck&) = default;
};

struct GuardPlan {
    std::vector<std::string> directories;  // to be made
    std::string launch_file;               // empty: none
    std::string launch;
    // Roll's: that one cannot be run is not the job's fault, and they write into their logs
    // themselves. Of others a log is made once they say something.
    bool own_programs = true;
    std::vector<NodeCheck> checks{};
    std::vector<Program> programs;
    std::int64_t log_bytes_max = 0;       // of each; 0: no limit
    std::vector<std::string> patterns{};  // looked for in the logs after a bad end
    std::vector<GpuRoom> gpus{};
    int gpu_wait_seconds = 50;  // for all of them to be free; then the attempt ends
    std::string cgroup{};       // that all programs run in; empty: that of the guard
    friend bool operator==(const GuardPlan&, const GuardPlan&) = default;
};

std::string encode(const GuardPlan& plan);  // one line, no newline
Result<GuardPlan> decode_guard_plan(std::string_view line);

std::string encode(const Verdict& verdict);
Result<Verdict> decode_verdict(std::string_view line);

// The guard's main; its exit status.
int run_guard();

}  // namespace roll::agent
