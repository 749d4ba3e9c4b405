// Pipeline schedules as data: for each rank, the order of its work. Pure; no torch.
//
// A model is cut into pp * vp chunks; global stage s = chunk * pp + rank. Sending and receiving are
// not in the table, they follow from it: a forward op of stage s > 0 first receives from the rank
// of stage s - 1 and, unless it is the last, sends to that of s + 1; backward-input the other way
// round.
//
// What a table may rely on: there is one channel for each (from, to, activation | gradient); a send
// never waits, a receive waits for the oldest message of its channel, and messages carry no names.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"

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

// Each backward's weight half follows its input half at once.
PipelineSchedule one_forward_one_backward(int pp, int microbatches);

// Megatron's interleaving: vp chunks a rank, microbatches in groups of pp.
// Error InvalidArgument: pp does not divide microbatches (the remainder would cost more than it
// saves).
Result<PipelineSchedule> interleaved(int pp, int vp, int microbatches);

// ZB-H1: 1F1B whose weight halves come `rank` microbatches late, where the pipeline has gaps. Holds
// pp microbatches on every rank: as much as 1F1B holds on its first.
PipelineSchedule zero_bubble_h1(int pp, int microbatches);

struct Costs {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
};

struct ScheduleReport {
    std::vector<int> live_max;  // per rank: chunk activations held, forward to weight half
    std::vector<std::vector<double>> starts;  // per rank and op, as the order and the costs allow
    double makespan = 0;
    double bubble = 0;  // makespan / ideal - 1, before the step's own synchronisation
};

// Runs the table in thought. Error InvalidArgument names the rank and the op: work missing, doubled
// or out of order; a receive that would take another microbatch's message; a deadlock.
Result<ScheduleReport> check(const PipelineSchedule& schedule, const Costs& costs = {});

// One line a rank, one cell a unit of time: F3 is the forward of microbatch 3 and F3' of chunk 1,
// B and W are the two halves of backward.
std::string to_string(const PipelineSchedule& schedule, const ScheduleReport& report);
std::string to_string(const Op& op);

}  // namespace roll::plan
