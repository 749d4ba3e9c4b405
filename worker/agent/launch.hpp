// Plans the start of an attempt on this node: programs, environment, files. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/guard.hpp"

namespace roll::agent {

// Properties of this node that affect a launch.
struct LaunchSite {
    std::string programs;  // directory of roll-rank and roll-convert
    int cores = 1;         // determines the number of threads
    int slots = 1;
    int gpus = 0;
    std::string session;  // value of ROLL_WORKER, which marks this roll-worker's processes
    // CUDA's names of the worker's GPUs (indices, UUIDs, MIG instances). Empty: the worker's own
    // indices.
    std::vector<std::string> gpu_names{};
    std::vector<std::int64_t> gpu_used_bytes{};  // of each GPU when this worker started
    // The CPUs that the programs of each slot are bound to; empty: no binding.
    std::vector<std::vector<int>> slot_cpus{};
    std::vector<std::string> environment;  // roll-worker's environment, "NAME=value"
    std::vector<std::string> check{};      // the site's check before every attempt; empty: none
    int check_seconds = 60;
    std::vector<std::string> links{};  // network links that were up when this worker started
    int gpu_wait_seconds = 50;  // time for an attempt's GPU memory to become free; 0: do not wait
};

// train and resume start one roll-rank per slot; convert and merge one roll-convert; command the
// job's own program. Fails with InvalidArgument if a command's document holds no command.
Result<GuardPlan> plan_launch(const protocol::StartOrder& order, const LaunchSite& site);

// Returns the path of "logs/attempt-N" in the job's output directory.
std::string logs_of(const protocol::StartOrder& order);

}  // namespace roll::agent
