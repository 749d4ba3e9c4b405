// Draws samples from several sets by weight, as Megatron-core's BlendedDataset does. Pure.
//
// Sample i comes from the set whose share is farthest behind: the set with the largest difference
// between weight x max(i, 1) and the number of samples already drawn from the set. If several sets
// have the largest difference, the first of these sets is used. A set of weight 0 is never used. If
// the weights change at a sample, the counting starts again there, but each set continues with its
// next sample. The draws do not depend on the number of samples that a job needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roll::data {

// Weights of the sets from sample `first` on, until the next phase begins.
struct BlendPhase {
    std::uint64_t first = 0;
    std::vector<double> weights;  // not negative, with the sum 1; one weight for each set
};

// Returns the weights divided by their sum. The sum is added up in numpy's order, so that the
// result equals Megatron's to the last bit. The sum must be positive.
std::vector<double> normalized(std::span<const double> weights);

class Blend {
  public:
    // The first phase must begin at sample 0, and the phases must be in ascending order. All phases
    // must have the same number of weights.
    explicit Blend(std::vector<BlendPhase> phases);

    struct Draw {
        std::size_t set = 0;
        // index of the sample among the samples that are drawn from this set
        std::uint64_t sample = 0;
    };

    // Returns the draw of a sample. The first call for a late sample makes all draws before that
    // sample. This takes about a nanosecond for each sample and set. Later calls are fast. Not
    // thread-safe.
    Draw at(std::uint64_t index) const;

    // Returns how many of the first `samples` samples are drawn from each set.
    std::vector<std::uint64_t> counts(std::uint64_t samples) const;

  private:
    // The state of the draws before a sample.
    struct State {
        std::uint64_t next = 0;
        std::vector<std::uint64_t> before;  // samples drawn from each set in all earlier phases
        std::vector<std::uint64_t> drawn;   // samples drawn from each set in the current phase
    };
    Draw step(State& state) const;
    State& move_to(std::uint64_t index) const;

    std::vector<BlendPhase> phases_;
    // states_[i]: the state before sample i * kKeptEvery; has no states after the last draw
    mutable std::vector<State> states_;
    // state after the latest draw; the next call often asks for the next draw
    mutable State cursor_;
};

}  // namespace roll::data
