// AdamW over a chunk's main parameters: torch.optim.AdamW's arithmetic. Megatron's rule of decay:
// biases and one-dimensional parameters do not decay. Frozen ones stay as they are, and have no
// moments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

struct AdamWOptions {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
    // Globs of names that decay or do not, the first match counting, besides the rule.
    std::vector<std::pair<std::string, bool>> decays = {};
};

// The moments lie in the parameters' order, one after the other; a checkpoint stores and restores
// them through these members.
struct AdamWState {
    std::int64_t steps = 0;  // updates made
    at::Tensor flat_average;
    at::Tensor flat_square;
    std::vector<at::Tensor> average;  // by parameter; of a frozen one, not defined
    std::vector<at::Tensor> square;
};

class AdamW {
  public:
    AdamW(const Parameters& parameters, const AdamWOptions& options);

    // One update by grad_scale * gradient (the scale is what clipping asks for). The very first
    // leaves the moments to settle().
    void step(double lr, double grad_scale);

    // To be called after an update, before the gradients change: writes the moments of the first,
    // which are functions of its gradient alone. So nobody waits for their memory, half of
    // what is touched in a first step (a virtual machine's host may give it slowly), before that
    // step is told.
    void settle();

    // Of the steps from here on.
    void set_weight_decay(double weight_decay) { options_.weight_decay = weight_decay; }

    AdamWState& state() {
        settle();
        return state_;
    }

  private:
    void step_on_gpu(double lr, double grad_scale);

    AdamWOptions options_;
    std::vector<bool> decays_;  // by parameter
    const Parameters& parameters_;
    AdamWState state_;
    std::optional<double> owed_;  // the first update's grad_scale, until it is settled
};

// The sum of squares of a chunk's gradients in double, a 0-dim tensor of the CPU.
at::Tensor grad_square_sum(const Parameters& parameters);

// How many elements of the gradient are 0, frozen parameters' left out; likewise.
at::Tensor grad_zero_count(const Parameters& parameters);

}  // namespace roll::train
