// Executes one rank's row of a pipeline schedule. It is the only loop that runs forward and
// backward, with one stage or many. The loop makes no decisions; plan::check() has shown that the
// schedule terminates.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/model/chunk.hpp"
#include "worker/train/pipeline/grad_buckets.hpp"

namespace roll::train {

struct RankChunk {
    Chunk& chunk;
    GradBuckets& buckets;
};

struct ScaledBatch {
    std::span<const Microbatch> microbatches;
    std::span<const double> scales;  // factor by which each micro-batch's summed loss is multiplied
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

// Executes the ops. Returns the scaled loss summed over the micro-batches, a 0-dim double; 0 on
// ranks without the last stage. Gradients and loss are bitwise the same for every schedule with the
// same number of layers per chunk.
at::Tensor execute(std::span<const plan::Op> ops, std::span<RankChunk> chunks,
                   const ScaledBatch& batch, Communicator& pp, StepTrace& trace);

// Runs only forward, one micro-batch after another through all stages, and saves nothing. Returns
// the sum of the loss without scaling, a 0-dim double on the CPU; 0 on ranks without the last
// stage.
at::Tensor evaluate(std::deque<Chunk>& chunks, std::span<const Microbatch> batch, Communicator& pp);

}  // namespace roll::train
