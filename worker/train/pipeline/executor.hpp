// Executes one rank's row of a pipeline schedule. It is the only loop that runs forward and
// backward, with one stage or many, for training, evaluation and the search for values that are not
// finite. The loop makes no decisions; plan::check() has shown that the schedule terminates.
#pragma once

#include <span>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct RankChunk {
    Chunk& chunk;
    GradReady ready;  // called after each contribution to a gradient
};

struct ScaledBatch {
    std::span<const Microbatch> microbatches;
    // Factor by which each micro-batch's summed loss is multiplied. Empty in an evaluation, in
    // which all ops are forward: losses are then not scaled, and nothing is saved for backward.
    std::span<const double> scales = {};
};

// The events of a step in order, for tests and timelines.
struct TraceEvent {
    enum class Kind { OpDone, ReductionIssued };
    Kind kind = Kind::OpDone;
    plan::Op op = {};  // the op, for OpDone
    int chunk = 0;     // chunk of the bucket, for ReductionIssued
    // the bucket, for ReductionIssued; buckets are numbered in the order of backward
    int bucket = 0;
};
using StepTrace = std::vector<TraceEvent>;

// Executes this rank's row of the schedule. Returns the loss of each micro-batch, doubles on the
// CPU; 0 on ranks without the last stage. Gradients and losses are bitwise the same for every
// schedule with the same number of layers per chunk.
at::Tensor execute(const plan::PipelineSchedule& schedule, std::span<RankChunk> chunks,
                   const ScaledBatch& batch, Communicator& pp, StepTrace& trace);

}  // namespace roll::train
