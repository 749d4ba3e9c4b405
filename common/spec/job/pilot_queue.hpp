// An allocation queue (`rollctl alloc add`). It describes a kind of Slurm allocation that rolld may
// request, and limits of the requests.
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
    // Options of sbatch for each allocation. If an option is empty, Slurm's default applies.
    std::string partition{};
    std::string account{};
    std::string qos{};
    std::string constraint{};
    int nodes = 1;
    int slots = 1;  // CPU slots per node, passed as --cpus-per-task
    int gpus = 0;   // GPUs per node, passed as --gres=gpu:N
    // Memory per node in bytes, passed as --mem. 0: Slurm's default applies. rolld then does not
    // know the memory of a future node, so rolld requests no allocation for a job that sets
    // `memory`. Such a job can still run on a connected node of this queue.
    std::int64_t memory = 0;
    std::chrono::seconds time{};
    // more arguments of sbatch, passed after the arguments that Roll sets
    std::vector<std::string> sbatch_args{};
    std::vector<std::string> setup{};  // shell lines to run before the workers start
    // Maximum numbers of nodes and of allocations that the queue may have at once. Requested and
    // running allocations count. 0: no limit.
    int max_nodes = 0;
    int max_jobs = 10;
    // Maximum GPU-hours of all allocations of the queue, including ended allocations; 0: no limit.
    // An allocation that has not ended counts with its full time limit.
    int max_gpu_hours = 0;
    int backlog = 4;  // maximum number of requests that Slurm has not granted yet
    // An allocation is requested only if the waiting jobs would use at least this percentage of the
    // allocation.
    int min_percent = 0;
    std::chrono::seconds idle{300};  // an allocation is released after this time without jobs
    // Jobs stop this time before the end of the allocation, see margin()
    std::chrono::seconds handover{120};
    friend bool operator==(const PilotQueue&, const PilotQueue&) = default;

    // Returns the time before the end of an allocation at which the allocation's jobs must begin to
    // save and stop.
    std::chrono::seconds margin() const { return std::min(handover, time / 4); }
};

// Encode a queue as one JSON object, and decode such an object. Decoding fails with one
// InvalidArgument that lists all problems.
std::string to_json(const PilotQueue& queue);
Result<PilotQueue> pilot_queue_from_json(std::string_view text);

}  // namespace roll::spec
