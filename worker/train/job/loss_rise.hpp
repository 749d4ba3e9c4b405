// Finds the step at which the loss began to rise before it became non-finite. The weights since
// that step count as poisoned. Although each weight is finite, no run may continue from these
// weights.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace roll::train {

// The losses of the latest steps. A step is "high" if its loss is an outlier (outlier.hpp, with 6
// standard deviations) among the losses of the last 50 calm steps. Other steps are "calm". After
// 200 high steps in a row, the new level counts as calm.
class LossHistory {
  public:
    // Adds a step. Steps must be added in ascending order. If `step` was added before, first
    // removes this step and all later steps.
    void add(std::int64_t step, double loss);

    // Returns the step at which the loss began to rise. This step is the first of the consecutive
    // high steps that end with the newest step. Returns nullopt if the newest step is calm.
    std::optional<std::int64_t> rise() const;

  private:
    struct Step {
        std::int64_t step = 0;
        double loss = 0;
    };
    std::deque<Step> steps_;
};

}  // namespace roll::train
