// AdamW over a chunk's main weights, with torch.optim.AdamW's arithmetic and Megatron's decay rule:
// biases and one-dimensional parameters do not decay. Frozen parameters do not change and have no
// moments. Updates the own rows of each parameter (parameters.hpp) and has moments for them only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

struct AdamWOptions {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
    // Exceptions from the decay rule. An entry is a glob of parameter names, and whether these
    // parameters decay. The first entry whose glob matches a name applies.
    std::vector<std::pair<std::string, bool>> decays = {};
};

// The moments, stored in the order of the parameters. Checkpoints are written from these members
// and restored into them.
struct AdamWState {
    std::int64_t steps = 0;  // number of updates made
    at::Tensor flat_average;
    at::Tensor flat_square;
    std::vector<at::Tensor> average;  // by parameter; undefined if frozen
    std::vector<at::Tensor> square;
};

class AdamW {
  public:
    AdamW(const Parameters& parameters, const AdamWOptions& options);

    // Makes one update with the gradient times `grad_scale`, which includes clipping.
    void step(double lr, double grad_scale);

    // Changes the weight decay that the next steps use.
    void set_weight_decay(double weight_decay) { options_.weight_decay = weight_decay; }

    AdamWState& state() { return state_; }

  private:
    void step_on_gpu(double lr, double grad_scale);

    AdamWOptions options_;
    std::vector<bool> decays_;  // by parameter: true if it decays
    const Parameters& parameters_;
    AdamWState state_;
};

// Returns the sum of squares of a contiguous tensor, a 0-dim double tensor on the CPU.
at::Tensor square_sum(const at::Tensor& values);

// Returns the number of elements that are 0, a 0-dim tensor on the CPU.
at::Tensor zero_count(const at::Tensor& values);

}  // namespace roll::train
