// One rank's part of training: its chunks, their gradients and optimizers, and the training step.
//
// Used from one thread, with the same calls in the same order on every rank. Throws PeerLost when
// another rank is gone, and c10::Error for any other failure. After an exception, the object is
// unusable.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/optim/optimizer.hpp"
#include "worker/train/pipeline/executor.hpp"
#include "worker/train/pipeline/grad_buckets.hpp"
#include "worker/train/pipeline/step_options.hpp"
#include "worker/train/pipeline/step_result.hpp"
#include "worker/train/pipeline/step_sums.hpp"
#include "worker/train/pipeline/whole_model.hpp"

namespace roll::train {

class TrainStep {
  public:
    // Requires that `schedule` has passed plan::check(). `schedule` and the groups must outlive
    // this object. With a tensor-parallel group, requires that spec::tensor_problems() is empty.
    TrainStep(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
              const Groups& groups, const TrainOptions& options);

    // Makes one optimizer step. `batch` is this replica's part of the global batch and must have
    // schedule().microbatches micro-batches. `loss_scale`: factor of the loss in backward only.
    // `measures`: also measure the norms of each layer, which copies this rank's main weights.
    // Updates the weights only if the loss and the gradient norm are finite and within `limits`,
    // and if all replicas have the same norm. `extra`: returns numbers that the step gathers
    // together with its loss (StepResult::extra_RN), equally many on all ranks. run() calls `extra`
    // once, just before the gather, and so before the update.
    StepResult run(std::span<const Microbatch> batch, double lr, double loss_scale = 1,
                   bool measures = false, const StepLimits& limits = {},
                   const std::function<std::vector<double>()>& extra = {});

    // Computes the loss and the gradient of the latest run() again, from the same arguments, and
    // does not update the weights. Requires that run() has not updated the weights either. On a
    // CPU, the result and the gradients are bitwise those of run(). Does not call at_phase(), and
    // gathers no numbers of the caller.
    StepResult repeat(std::span<const Microbatch> batch, double loss_scale = 1);

    // Returns the hashes of GradBuckets::sent() of all chunks, for the latest run() or repeat().
    std::vector<std::int64_t> sent_gradients() const;

    // Waits until this rank has all weights that other ranks have updated in the latest run(). With
    // ZeRO-1 and ZeRO-2, these weights arrive while the next forward runs. All replicas must call
    // this function.
    void await_weights();

    // Exchanges the weights with their average, on all ranks. A second call restores both.
    void swap_average();

    // Returns the loss of `batch`, summed over all replicas. Each replica must pass the same number
    // of micro-batches. `kl`: the divergence that the objective needs (PairBatch::kl).
    LossSum evaluate(std::span<const Microbatch> batch, double kl = 0);

    // Returns the sums, over all replicas, from which the divergence is estimated; zeros if the
    // objective needs no estimate. Each replica must pass the same number of micro-batches.
    KlSum kl_sum(std::span<const Microbatch> batch);

    // Returns the log-probabilities of the sequences in this replica's micro-batches of answers,
    // [K, S], for any objective. Zeros follow a micro-batch's last sequence. All ranks of the
    // replica get the result.
    at::Tensor log_probs(std::span<const Microbatch> batch);

    // Runs forward and backward of one micro-batch, and returns its mean loss. Leaves the gradients
    // in the chunks, without reducing them. All stages of a replica must call replay(); other
    // replicas need not.
    double replay(const Microbatch& data);

    // The chunks of this rank and their optimizers, one entry per chunk. To restore a checkpoint,
    // write to the weights of the chunks and to the states of the optimizers. chunks() calls
    // await_weights(). Between run() and other transfers, all replicas must call chunks() or
    // await_weights().
    std::deque<Chunk>& chunks() {
        await_weights();
        return chunks_;
    }
    std::deque<Optimizer>& optimizers() { return optimizers_; }

    const Groups& groups() const { return groups_; }
    const plan::PipelineSchedule& schedule() const { return schedule_; }
    // Returns true if each replica stores only a part of the weights.
    bool shares_weights() const { return options_.init.splits_weights; }
    // Returns the parameters of the whole model. This rank's chunks hold some of them.
    const std::vector<WholeParameter>& whole() const { return whole_; }

    const StepTrace& trace() const { return trace_; }  // returns the events of the latest run()
    // Returns what the latest run() was doing when it threw, such as "forward of micro-batch 2".
    std::string doing() const;

  private:
    std::vector<LossRule> rules(std::span<const Microbatch> batch, std::int64_t& tokens);
    std::vector<LossRule> pair_rules(std::span<const Microbatch> batch, std::int64_t& tokens);
    KlSum own_kl_sum(std::span<const Microbatch> batch);
    StepParts loss_of_pairs(std::span<const Microbatch> batch, std::span<const LossRule> rules,
                            const at::Tensor& log_probs_KS);
    StepParts own_loss(std::span<const Microbatch> batch, std::span<const LossRule> rules,
                       const at::Tensor& values);
    PairSums sums_over_replicas(PairSums sums);
    LossSum evaluate_pairs(std::span<const Microbatch> batch, double kl);
    RuledBatch ruled(std::span<const Microbatch> batch, std::span<const LossRule> rules) const;
    std::vector<RankChunk> alone();
    void reduce_tied();
    void count_reduced(StepResult& result) const;
    void conclude(StepResult& result, const StepParts& own, std::span<const double> extra);
    StepResult compute(std::span<const Microbatch> batch, double loss_scale,
                       const std::function<std::vector<double>()>& extra);
    void update(StepResult& result, double lr, double loss_scale, bool measures);
    void sum_over_model(const at::Tensor& sums, Site site);
    void enter(Phase phase) const;
    void announce(spec::FaultPhase phase);
    // `flat`: passes the whole flat gradient of a chunk to sum_of() at once, which is faster. For
    // zero_count(), `flat` must be false, because the flat gradient has zeros for frozen
    // parameters.
    double over_gradient(const std::function<at::Tensor(const at::Tensor&)>& sum_of, bool flat);

    const plan::PipelineSchedule& schedule_;
    bool tied_;
    Groups groups_;
    TrainOptions options_;
    std::vector<WholeParameter> whole_;
    std::deque<Chunk> chunks_;  // buckets_ and optimizers_ point into this deque
    std::deque<GradBuckets> buckets_;
    std::deque<Optimizer> optimizers_;
    StepTrace trace_;
    ExpertLoads loads_;                        // of the latest step
    std::vector<spec::FaultPhase> announced_;  // phases for which at_phase() was called
};

// Returns true on the first rank of a replica, which receives the tensors of copy_to_first().
bool is_first(const Groups& groups);

// Returns the parts of the model for text generation. `step` must outlive the result. All replicas
// must call this function after run(), also if only one of them generates text.
TextModel text_model(TrainStep& step);

}  // namespace roll::train
