// Simulates a pipeline schedule and its messages: finds deadlocks, the time of a step, and the
// memory that each rank holds. Pure; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {

// Costs of one micro-batch on one stage. All times are in the same unit, which may be any unit.
struct Costs {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
    // bytes held from the end of forward to the input-gradient pass of backward
    std::int64_t after_forward = 1;
    // bytes held from the input-gradient pass of backward to its weight-gradient pass
    std::int64_t after_backward = 1;
    // whether the stage sends gradients to the stage before it; the first stage never does
    bool sends_gradients = true;
};

// The way in which ranks exchange tensors. A send completes only after its receive is posted, but
// meanwhile the sending rank continues to compute.
struct Transport {
    // Message queues. Each queue delivers its messages in the order in which they were issued.
    // Links: one queue for each (from, to, activation | gradient). Channels: per rank, one queue
    // for all activations that the rank sends or receives, and one queue for all gradients, as on
    // an NCCL communicator with one stream.
    enum class Lines { Links, Channels };
    Lines lines = Lines::Links;
    int ahead = 1;  // a receive is posted this many ops before the op that needs it
};

// Messages of one step over the link from rank `from` to rank `to`.
struct LinkUse {
    int from = 0, to = 0;
    bool gradients = false;  // true: the messages carry gradients; false: activations
    std::int64_t messages = 0;
    friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct ScheduleReport {
    // Largest number of micro-batches whose activations a rank holds at once, for each rank. A
    // micro-batch counts once for each chunk, from its forward to its weight-gradient pass.
    std::vector<int> live_max;
    // peak on each rank of the bytes that Costs counts
    std::vector<std::int64_t> peak_bytes;
    std::vector<std::vector<double>> starts, ends;  // times of ops: [rank][op]
    std::vector<LinkUse> links;                     // ordered by `from`, `to` and `gradients`
    double makespan = 0;
    // Idle share: makespan / (mean work of a rank) - 1. Idle time of a rank counts until the
    // slowest rank is done, because the gradient norm needs all ranks.
    double bubble = 0;
    double imbalance = 1;  // work of the busiest rank / mean work of a rank
};

// Simulates the schedule. `costs` has one entry for each stage, or one entry for all stages. If
// `costs` is empty, all costs are 1. Fails with InvalidArgument if an op is missing, duplicated or
// out of order, if a receive would take the message of another micro-batch, or if the ranks
// deadlock. The message names the rank and the op; for a deadlock, it names the ranks and ops that
// wait for each other.
Result<ScheduleReport> check(const PipelineSchedule& schedule, const std::vector<Costs>& costs = {},
                             Transport transport = {});

// Returns ScheduleReport::peak_bytes of one rank, but does not simulate the schedule. `costs` has
// one entry for each stage.
std::int64_t peak_bytes(const PipelineSchedule& schedule, int rank, std::span<const Costs> costs);

}  // namespace roll::plan
