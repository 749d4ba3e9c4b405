// Carries out one rank's row of a pipeline schedule: the only loop that runs forward and backward,
// for one stage as for many. It decides nothing; plan::check has shown that it ends.
#pragma once

#include <deque>
#include <span>

#include "worker/train/ddp/grad_buckets.hpp"
#include "worker/train/model/chunk.hpp"
#include "worker/train/pipeline/trace.hpp"

namespace roll::train {

struct RankChunk {
    Chunk& chunk;
    GradBuckets& buckets;
};

struct ScaledBatch {
    std::span<const Microbatch> microbatches;
    std::span<const double> scales;  // what each one's summed loss is multiplied by
};

// Returns the scaled loss summed over the micro-batches, a 0-dim double; 0 without the last stage.
// Gradients and loss depend on the table in no bit, as far as the layers stay where they are.
at::Tensor execute(std::span<const plan::Op> ops, std::span<RankChunk> chunks,
                   const ScaledBatch& batch, Communicator& pp, StepTrace& trace);

// Forward alone, a micro-batch after the other through all stages, of which nothing is kept. The
// plain sum of the loss, a 0-dim double of the CPU; 0 without the last stage.
at::Tensor evaluate(std::deque<Chunk>& chunks, std::span<const Microbatch> batch, Communicator& pp);

}  // namespace roll::train
