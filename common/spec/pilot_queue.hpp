// An allocation queue (`rollctl alloc add`): one kind of Slurm allocation that rolld may order, and
// limits on the orders.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

struct PilotQueue {
    std::string name;
    // Options of sbatch for each allocation. An empty option is left to Slurm.
    std::string partition{};
    std::string account{};
    std::string qos{};
    std::string constraint{};
    int nodes = 1;
    int slots = 1;  // CPU slots per node, for --cpus-per-task of its worker
    int gpus = 0;   // GPUs per node, for --gres=gpu:N
    // Memory per node in bytes, for --mem; 0: left to Slurm, and jobs with `memory` use no node of
    // this queue that has not connected yet
    std::int64_t memory = 0;
    std::chrono::seconds time{};
    std::vector<std::string> sbatch_args{};  // more arguments, passed after Roll's own
    std::vector<std::string> setup{};        // shell lines to run before the workers start
    // Limits of ordered and running allocations together; 0: no limit.
    int max_nodes = 0;
    int max_jobs = 10;
    // Maximum GPU-hours of all allocations of the queue, including ended ones; 0: no limit. An
    // allocation that has not ended counts with its full time limit.
    int max_gpu_hours = 0;
    int backlog = 4;  // maximum number of ordered allocations that Slurm has not granted yet
    // An allocation is ordered only if the waiting jobs would use at least this percentage of it.
    int min_percent = 0;
    std::chrono::seconds idle{300};      // an allocation is given back after this time without jobs
    std::chrono::seconds handover{120};  // jobs stop this time before the end; at most time / 4
    friend bool operator==(const PilotQueue&, const PilotQueue&) = default;

    // Returns how long before the end of an allocation its jobs are told to save and stop.
    std::chrono::seconds margin() const { return std::min(handover, time / 4); }
};

// Encode a queue as one JSON object, and decode it. Decoding fails with one InvalidArgument that
// lists all problems.
std::string to_json(const PilotQueue& queue);
Result<PilotQueue> pilot_queue_from_json(std::string_view text);

}  // namespace roll::spec
