// Pipeline schedules as data: a table with the order of operations on each rank. Pure; no torch.
//
// A model is cut into pp * vp chunks; global stage s is chunk s / pp on rank s mod pp. A table
// holds no sends and receives, because they follow from its ops. A forward op of stage s first
// receives from the rank of stage s - 1, unless s is 0, then computes, then sends to the rank of
// stage s + 1, unless s is the last. A backward-input op does the same in the opposite direction.
//
// The program that executes a table must guarantee this: there is one channel for each (from, to,
// activation | gradient); a send never blocks; a receive blocks until the channel's oldest message
// is there; messages carry no ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/spec/parallel.hpp"

namespace roll::plan {

enum class OpKind { Forward, BackwardInput, BackwardWeight };

struct Op {
    OpKind kind = OpKind::Forward;
    int chunk = 0;
    int microbatch = 0;
    friend bool operator==(const Op&, const Op&) = default;
};

struct PipelineSchedule {
    int pp = 1;
    int vp = 1;
    int microbatches = 1;
    std::vector<std::vector<Op>> ranks;
};

// Returns the 1F1B schedule. The weight half of each backward follows its input half immediately.
PipelineSchedule one_forward_one_backward(int pp, int microbatches);

// Returns Megatron's interleaved schedule, with vp chunks per rank and micro-batches in groups of
// pp. Fails with InvalidArgument if pp does not divide `microbatches`, because the incomplete group
// would cost more than interleaving saves.
Result<PipelineSchedule> interleaved(int pp, int vp, int microbatches);

// Returns the ZB-H1 schedule: 1F1B with the weight half of each backward delayed by `rank`
// micro-batches, which fills the pipeline's bubbles. Every rank holds the activations of pp
// micro-batches, as rank 0 does in 1F1B.
PipelineSchedule zero_bubble_h1(int pp, int microbatches);

// Returns the GPipe schedule: all forwards, then all backwards, chunk by chunk. Every rank holds
// the activations of all micro-batches.
PipelineSchedule gpipe(int pp, int vp, int microbatches);

// Returns the ops of one rank that only runs forward, in the order of gpipe().
std::vector<Op> forward_only(int vp, int microbatches);

// Returns the schedule that a job asks for, with `microbatches` on each replica. Auto is 1F1B, or
// interleaved if the stages have several chunks. Fails with InvalidArgument; the message has the
// numbers.
Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel, std::int64_t microbatches);

struct Costs {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
};

struct ScheduleReport {
    // By rank: largest number of micro-batches whose activations are held at once, from forward to
    // the weight half of backward
    std::vector<int> live_max;
    std::vector<std::vector<double>> starts;  // by rank and op: start time under the given costs
    double makespan = 0;
    // idle share of the step: makespan / ideal - 1, without the step's own synchronisation
    double bubble = 0;
};

// Simulates the schedule. Fails with InvalidArgument for an op that is missing, duplicated or out
// of order, a receive that would take another micro-batch's message, or a deadlock. The message
// names the rank and the op.
Result<ScheduleReport> check(const PipelineSchedule& schedule, const Costs& costs = {});

// Returns the schedule as text, with one line per rank and one cell per unit of time. F3 is the
// forward of micro-batch 3, F3' the forward of micro-batch 3 in chunk 1. B and W are the input and
// weight halves of backward.
std::string to_string(const PipelineSchedule& schedule, const ScheduleReport& report);
std::string to_string(const Op& op);

}  // namespace roll::plan
