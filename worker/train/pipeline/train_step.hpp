// One rank's part of training: its chunks, their gradients and optimizer, and the step over them.
//
// Used from one thread, the same calls in the same order on every rank. Throws PeerLost when
// another rank is gone and c10::Error on everything else that breaks; after either the object is
// unusable.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/train/optim/adamw.hpp"
#include "worker/train/pipeline/executor.hpp"

namespace roll::train {

struct Groups {
    Communicator& pp;
    Communicator& dp;
    Communicator* tie = nullptr;  // of the two ranks that hold an end of a tied model
};

struct TrainOptions {
    InitOptions init = {};
    AdamWOptions adamw = {};
    double clip_grad = 1.0;  // global norm; 0: no clipping
    bool count_zeros = false;
    spec::Normalize normalize = spec::Normalize::Step;
    std::int64_t bucket_numel = 0;  // 0: plan::default_bucket_numel
};

struct StepResult {
    double loss = 0;         // what was minimized: the mean over all dp ranks and micro-batches
    double grad_norm = 0;    // before clipping
    double clip_factor = 1;  // what clipping multiplied the gradient by
    std::optional<std::int64_t> grad_zeros = std::nullopt;  // if they are counted
    std::int64_t tokens = 0;  // targets that counted, over all dp ranks
    bool updated = false;     // false: loss or norm is not finite, or there was no token, and the
                              // weights were left alone
};

struct LossSum {
    double loss = 0;  // the plain sum of -log p(target)
    std::int64_t tokens = 0;
};

class TrainStep {
  public:
    // The schedule has passed plan::check; it and the groups outlive this.
    TrainStep(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
              const Groups& groups, const TrainOptions& options);

    // One optimizer step over this replica's schedule.microbatches micro-batches.
    StepResult run(std::span<const Microbatch> batch, double lr);

    // The loss of any number of micro-batches, the same on each replica, summed over all of them.
    LossSum evaluate(std::span<const Microbatch> batch);

    // One entry a chunk. Writing into weights and moments is how a checkpoint is restored.
    std::deque<Chunk>& chunks() { return chunks_; }
    std::deque<AdamW>& optimizers() { return optimizers_; }

    // Of the latest run().
    const StepTrace& trace() const { return trace_; }

  private:
    std::vector<double> scales(std::span<const Microbatch> batch, std::int64_t& tokens);
    void reduce_tied();
    double over_model(const std::function<at::Tensor(const Parameters&)>& of_chunk,
                      const std::function<at::Tensor(const at::Tensor&)>& of_tied);

    const plan::PipelineSchedule& schedule_;
    bool tied_;
    Groups groups_;
    TrainOptions options_;
    std::deque<Chunk> chunks_;  // addresses are held by those below
    std::deque<GradBuckets> buckets_;
    std::deque<AdamW> optimizers_;
    StepTrace trace_;
};

}  // namespace roll::train
