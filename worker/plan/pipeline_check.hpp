// Simulates a pipeline schedule with the rules of its transport: does the schedule end, how long
// does it take, and how much memory do the ranks hold? Pure; no torch.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {

// Costs of one stage for one micro-batch: times in any unit, and the bytes that the stage holds.
struct Costs {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
    std::int64_t after_forward = 1;   // bytes held from forward to the input half of backward
    std::int64_t after_backward = 1;  // bytes held between the halves of backward
};

// How ranks exchange tensors. A send waits for its receive, but does not stop its rank.
struct Transport {
    // Lines of messages; the messages of a line are exchanged in the order of issue. Links: each
    // (from, to, activation | gradient) is a line. Channels: all activations that a rank sends or
    // receives are one line, and all gradients another, as on one NCCL communicator and stream.
    enum class Lines { Links, Channels };
    Lines lines = Lines::Links;
    int ahead = 1;  // number of ops by which a receive is posted before the op that needs it
};

// Use of a link between two ranks in one step.
struct LinkUse {
    int from = 0, to = 0;
    bool gradients = false;  // carries gradients, not activations
    std::int64_t messages = 0;
    friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct ScheduleReport {
    // By rank: largest number of micro-batches whose activations are held at once, from forward to
    // the weight half of backward. A micro-batch counts once for each chunk.
    std::vector<int> live_max;
    std::vector<std::int64_t> peak_bytes;           // by rank: largest sum of the bytes held
    std::vector<std::vector<double>> starts, ends;  // by rank and op: times under the given costs
    std::vector<LinkUse> links;                     // ordered by from, to, gradients
    double makespan = 0;
    // Idle share of the step: makespan / (mean work of a rank) - 1. For all ranks, the step ends
    // when the slowest rank is done, because the gradient norm needs all ranks.
    double bubble = 0;
    double imbalance = 1;  // work of the busiest rank / mean work of a rank
};

// Simulates the schedule. `costs` has one entry for each stage, or one for all stages; if `costs`
// is empty, all costs are 1. Fails with InvalidArgument for an op that is missing, duplicated or
// out of order, a receive that would take another micro-batch's message, or a deadlock. The message
// names the rank and the op; for a deadlock, it names the ranks and ops that wait for each other.
Result<ScheduleReport> check(const PipelineSchedule& schedule, const std::vector<Costs>& costs = {},
                             Transport transport = {});

}  // namespace roll::plan
