// Prevents bad steps from updating the weights. A step is bad if its loss or gradient norm is not
// finite (train.on_not_finite) or is a spike (train.on_spike). Decides what the job does after a
// bad step. All ranks get the same results of a step, so all ranks decide alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "common/spec/train/train.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/job/bad_step.hpp"
#include "worker/train/job/loss_rise.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

// Returns a line for the end of the log: the number of steps, and of samples, that did not change
// the weights. Returns an empty text if all steps and samples did.
std::string untrained_text(const checkpoint::State& state);

class StepGuard {
  public:
    // All arguments must outlive this object.
    StepGuard(const spec::TrainSpec& spec, const protocol::Launch& launch, checkpoint::State& state)
        : spec_(spec),
          launch_(launch),
          state_(state) {}

    // Returns the limits of the loss and of the gradient norm in the next step, which has
    // spec.global_batch_size samples. The limits are infinite if train.on_spike is `ignore`.
    // Forgets earlier steps if this step is smaller than the step before: the gradient norms of
    // smaller batches have more noise.
    StepLimits limits();

    // Handles a step that ran with these limits. If the step was not applied, finds the cause, and
    // either skips the step or returns the failure with which this rank must end. If the job goes
    // back to a checkpoint, first records which samples and checkpoints the job leaves out. Every
    // rank must call this function with its own part of the batch, before state.step counts the
    // step.
    std::optional<RankFailure> check(TrainStep& step, std::span<const Microbatch> batch,
                                     const StepResult& result, const StepPlace& place,
                                     Communicator& world);

    // Adds the loss of an applied step. check() finds the start of a rise from these losses. Needed
    // only on rank 0.
    void note_loss(std::int64_t step, double loss) { history_.add(step, loss); }

  private:
    int& skipped_in_a_row();
    void accept(const StepResult& result);
    BadStep spike(const StepResult& result, const StepPlace& place) const;
    std::string prepare_rewind(std::span<const std::int64_t> bad, Communicator& world);

    const spec::TrainSpec& spec_;
    const protocol::Launch& launch_;
    checkpoint::State& state_;
    LossHistory history_;  // filled only on rank 0
    int skipped_ = 0;      // number of skipped steps in a row, if the state has no RecentSteps
};

}  // namespace roll::train
