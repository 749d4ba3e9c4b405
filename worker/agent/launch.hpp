// What is started for an attempt on this node: programs, environment, files. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/guard.hpp"

namespace roll::agent {

// This node, as far as launches depend on it.
struct LaunchSite {
    std::string programs;  // directory of roll-rank and roll-convert
    int cores = 1;         // to count threads by
    int slots = 1;
    int gpus = 0;
    std::string session;  // ROLL_WORKER: marks what this roll-worker started
    // What CUDA calls the GPUs that this worker offers (indices, UUIDs, MIG instances), by our own
    // index. Empty: by that index itself.
    std::vector<std::string> gpu_names{};
    std::vector<std::int64_t> gpu_used_bytes{};  // of each of them, when this worker began
    // The CPUs of each slot that its programs are bound to; empty: they are bound to none.
    std::vector<std::vector<int>> slot_cpus{};
    std::vector<std::string> environment;  // roll-worker's own, "NAME=value"
    std::vector<std::string> check{};      // the site's, before every attempt; empty: none
    int check_seconds = 60;
    std::vector<std::string> links{};  // of the network, that were up when this worker began
    int gpu_wait_seconds = 50;         // for the memory of an attempt's GPUs to be free; 0: none
};

// train and resume: a roll-rank each slot; convert and merge: one roll-convert; command: the
// program itself. InvalidArgument if a command's document holds no command.
Result<GuardPlan> plan_launch(const protocol::StartOrder& order, const LaunchSite& site);

// "logs/attempt-N" in the job's output directory.
std::string logs_of(const protocol::StartOrder& order);

}  // namespace roll::agent
