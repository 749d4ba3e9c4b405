// Where a rise of the loss began that ended in a number that is not finite: weights since then are
// poisoned, though each of their numbers is finite.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace roll::train {

// The losses of the latest steps. A step is high if its loss is above the median of the 50 calm
// steps before it by more than 9 times their median absolute deviation (6 standard deviations of
// normal noise) and by more than a twentieth of the median. The calm steps are those that are not
// high; before 16 of them no step is high. A run of 200 high steps is a new level, and calm.
class LossHistory {
  public:
    // Steps in ascending order; a step that is there and all after it are forgotten first.
    void add(std::int64_t step, double loss);

    // The first of the high steps that last to the newest step; nullopt if that one is calm.
    std::optional<std::int64_t> rise() const;

  private:
    struct Step {
        std::int64_t step = 0;
        double loss = 0;
    };
    std::deque<Step> steps_;
};

}  // namespace roll::train
