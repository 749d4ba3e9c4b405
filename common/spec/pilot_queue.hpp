// What `rollctl alloc add` asks for: a kind of Slurm allocation that rolld may order, and how many.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

struct PilotQueue {
    std::string name;
    // Of each allocation. An empty text leaves the choice to Slurm.
    std::string partition{};
    std::string account{};
    std::string qos{};
    std::string constraint{};
    int nodes = 1;
    int slots = 1;  // CPU slots that each node offers: --cpus-per-task of its worker
    int gpus = 0;   // of each node: --gres=gpu:N
    std::chrono::seconds time{};
    std::vector<std::string> sbatch_args{};  // passed on as they are, after Roll's own
    std::vector<std::string> setup{};        // shell lines before the workers start
    // How many may be on order or live at once; 0: no limit.
    int max_nodes = 0;
    int max_jobs = 10;
    int max_gpu_hours = 0;  // over the queue's life; what is granted counts at its full time
    int backlog = 4;        // ordered and not yet granted
    int min_percent = 0;    // ordered only where waiting jobs would use so much of it
    std::chrono::seconds idle{300};      // without work for so long: given back
    std::chrono::seconds handover{120};  // before its end jobs save and leave; at most a quarter
    friend bool operator==(const PilotQueue&, const PilotQueue&) = default;

    // How long before the end of an allocation its jobs are asked to leave.
    std::chrono::seconds margin() const { return std::min(handover, time / 4); }
};

// One JSON object, and back. Every problem of the fields in one Error: InvalidArgument.
std::string to_json(const PilotQueue& queue);
Result<PilotQueue> pilot_queue_from_json(std::string_view text);

}  // namespace roll::spec
