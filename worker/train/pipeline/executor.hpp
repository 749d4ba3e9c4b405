// Executes one rank's row of a pipeline schedule. This is the only loop that runs forward and
// backward: with one stage or many, for training, for evaluation, and for the search for non-finite
// values. The loop only follows the schedule. It does not look for deadlocks, because plan::check()
// has shown that the schedule has none.
#pragma once

#include <cstdint>
#include <functional>
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

// The result of the last stage for a micro-batch. Loss: one number. Sequences: a number for each
// sequence, as Chunk::log_probs() returns. Teacher: the loss and the divergence from a teacher.
// TopTokens: the numbers of Chunk::top_tokens().
enum class Returned { Loss, Sequences, Teacher, TopTokens };

struct RuledBatch {
    std::span<const Microbatch> microbatches;
    // The rule of each micro-batch's loss. Empty in an evaluation: then all ops are forward, losses
    // are not scaled, and nothing is saved for backward.
    std::span<const LossRule> rules = {};
    Returned returned = Returned::Loss;
    std::int64_t numbers = 1;  // maximum number of values that are returned for a micro-batch
    TopRule top = {};          // the rule for TopTokens
    double temperature = 1;    // temperature of an evaluation with a teacher
};

// An event of a step. A trace lists the events in order, for tests and timelines.
struct TraceEvent {
    enum class Kind { OpDone, ReductionIssued };
    Kind kind = Kind::OpDone;
    plan::Op op = {};  // the op that is done, for OpDone
    int chunk = 0;     // the chunk of the bucket, for ReductionIssued
    // the bucket, for ReductionIssued; buckets are numbered in the order of backward
    int bucket = 0;
    bool is_early = false;  // for ReductionIssued: backward still has gradients to compute
};
using StepTrace = std::vector<TraceEvent>;

// Executes this rank's row of the schedule. Returns the loss of each micro-batch, [K], or the
// numbers that the last stage returns for each micro-batch, [K, batch.numbers]. Zeros follow the
// last number of a row. The result is in doubles on the CPU, and is 0 on ranks without the last
// stage. Gradients and losses are bitwise the same for every schedule with the same number of
// layers per chunk. If `before` is set, calls it before each op.
at::Tensor execute(const plan::PipelineSchedule& schedule, std::span<RankChunk> chunks,
                   const RuledBatch& batch, Communicator& pp, StepTrace& trace,
                   const std::function<void(const plan::Op&)>& before = {});

}  // namespace roll::train
