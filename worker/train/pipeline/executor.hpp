// Executes one rank's row of a pipeline schedule. It is the only loop that runs forward and
// backward, with one stage or many, for training, evaluation and the search for values that are not
// finite. The loop makes no decisions; plan::check() has shown that the schedule terminates.
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

struct RuledBatch {
    std::span<const Microbatch> microbatches;
    // The rule of each micro-batch's loss. Empty in an evaluation, in which all ops are forward:
    // losses are then not scaled, and nothing is saved for backward.
    std::span<const LossRule> rules = {};
    // Number of sequences of a micro-batch, at most, if the last stage returns log-probabilities of
    // sequences (a preference); 0: it returns losses
    std::int64_t sequences = 0;
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

// Executes this rank's row of the schedule. Returns the loss of each micro-batch, [K], or the
// log-probabilities of its sequences, [K, batch.sequences] with zeros at the end: doubles on the
// CPU; 0 on ranks without the last stage. Gradients and losses are bitwise the same for every
// schedule with the same number of layers per chunk. Calls `before`, if given,
// before each op.
at::Tensor execute(const plan::PipelineSchedule& schedule, std::span<RankChunk> chunks,
                   const RuledBatch& batch, Communicator& pp, StepTrace& trace,
                   const std::function<void(const plan::Op&)>& before = {});

}  // namespace roll::train
