// Simulates a pipeline schedule and its messages: finds deadlocks, the time of a step, and the
// memory that each rank holds. Pure; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {

// Costs of one micro-batch on one stage. Times are in any unit.
struct Costs {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
    // Bytes held from the end of forward to the input half of backward
    std::int64_t after_forward = 1;
    // Bytes held from the input half of backward to its weight half
    std::int64_t after_backward = 1;
};

// How ranks exchange tensors. A send completes only once its receive is posted, but its rank
// continues to compute.
struct Transport {
    // Queues in which messages are exchanged in the order of issue. Links: one queue for each
    // (from, to, activation | gradient). Channels: one queue for all activations that a rank
    // sends or receives, and one for all gradients, as on an NCCL communicator with one stream.
    enum class Lines { Links, Channels };
    Lines lines = Lines::Links;
    int ahead = 1;  // a receive is posted this number of ops before the op that needs it
};

// Messages of one step over the link from rank `from` to rank `to`.
struct LinkUse {
    int from = 0, to = 0;
    bool gradients = false;  // true: carries gradients; false: carries activations
    std::int64_t messages = 0;
    friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct ScheduleReport {
    // Largest number of micro-batches whose activations a rank holds at once, by rank. A
    // micro-batch counts once for each chunk, from its forward to the weight half of its backward.
    std::vector<int> live_max;
    std::vector<std::int64_t> peak_bytes;  // peak bytes on each rank, of the kinds in Costs
    std::vector<std::vector<double>> starts, ends;  // times of ops: [rank][op]
    std::vector<LinkUse> links;                     // ordered by from, to, gradients
    double makespan = 0;
    // Idle share: makespan / (mean work of a rank) - 1. Every rank counts as busy or idle until
    // the slowest rank is done, because the gradient norm needs all ranks.
    double bubble = 0;
    double imbalance = 1;  // work of the busiest rank / mean work of a rank
};

// Simulates the schedule. `costs` has one entry for each stage, or one for all stages; if `costs`
// is empty, all costs are 1. Fails with InvalidArgument for an op that is missing, duplicated or
// out of order, a receive that would take another micro-batch's message, or a deadlock. The message
// names the rank and the op; for a deadlock, it names the ranks and ops that wait for each other.
Result<ScheduleReport> check(const PipelineSchedule& schedule, const std::vector<Costs>& costs = {},
                             Transport transport = {});

// Returns ScheduleReport::peak_bytes of one rank, without a simulation. `costs` has one entry for
// each stage.
std::int64_t peak_bytes(const PipelineSchedule& schedule, int rank, std::span<const Costs> costs);

}  // namespace roll::plan
