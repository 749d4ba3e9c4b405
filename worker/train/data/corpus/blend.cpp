#include "worker/train/data/corpus/blend.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.hpp"

namespace roll::data {
namespace {

constexpr std::uint64_t kKeptEvery = 4096;  // number of samples between two states that are kept

// Returns the sum of the values, added in the same order as in numpy.sum. Up to 128 values are
// added with eight partial sums. If there are more values, each half of them is summed separately,
// in the same way.
double numpy_sum(std::span<const double> values) {
    const std::size_t n = values.size();
    if (n < 8) {
        double sum = 0;
        for (const double value : values) sum += value;
        return sum;
    }
    if (n > 128) {
        const std::size_t half = n / 2 - n / 2 % 8;
        return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
    }
    double part[8];
    std::copy_n(values.begin(), 8, part);
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8)
        for (std::size_t k = 0; k < 8; ++k) part[k] += values[i + k];
    double sum =
        ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < n; ++i) sum += values[i];
    return sum;
}

}  // namespace

std::vector<double> normalized(std::span<const double> weights) {
    const double sum = numpy_sum(weights);
    ROLL_CHECK(sum > 0);
    std::vector<double> shares;
    for (const double weight : weights) shares.push_back(weight / sum);
    return shares;
}

Blend::Blend(std::vector<BlendPhase> phases) : phases_(std::move(phases)) {
    ROLL_CHECK(!phases_.empty() && phases_.front().first == 0);
    const std::size_t sets = phases_.front().weights.size();
    for (std::size_t i = 0; i < phases_.size(); ++i) {
        ROLL_CHECK(phases_[i].weights.size() == sets);
        ROLL_CHECK(i == 0 || phases_[i - 1].first < phases_[i].first);
    }
    const std::vector<std::uint64_t> none(sets);
    states_.push_back({0, none, none});
    cursor_ = states_.front();
}

Blend::Draw Blend::step(State& state) const {
    const auto after = std::upper_bound(
        phases_.begin(), phases_.end(), state.next,
        [](std::uint64_t sample, const BlendPhase& phase) { return sample < phase.first; });
    const BlendPhase& phase = *(after - 1);
    if (state.next == phase.first)
        for (std::size_t set = 0; set < state.drawn.size(); ++set)
            state.before[set] += std::exchange(state.drawn[set], 0);
    const double samples = std::max(static_cast<double>(state.next - phase.first), 1.0);
    std::size_t best = 0;
    double most = std::numeric_limits<double>::lowest();
    for (std::size_t set = 0; set < phase.weights.size(); ++set) {
        const double behind = phase.weights[set] * samples - static_cast<double>(state.drawn[set]);
        if (phase.weights[set] == 0 || behind <= most) continue;
        most = behind;
        best = set;
    }
    ++state.next;
    return {best, state.before[best] + state.drawn[best]++};
}

// Moves the cursor to the state before a sample.
Blend::State& Blend::move_to(std::uint64_t index) const {
    while (states_.size() <= index / kKeptEvery) {
        State state = states_.back();
        for (std::uint64_t i = 0; i < kKeptEvery; ++i) step(state);
        states_.push_back(std::move(state));
    }
    if (index < cursor_.next || index - cursor_.next > kKeptEvery)
        cursor_ = states_[index / kKeptEvery];
    while (cursor_.next < index) step(cursor_);
    return cursor_;
}

Blend::Draw Blend::at(std::uint64_t index) const { return step(move_to(index)); }

std::vector<std::uint64_t> Blend::counts(std::uint64_t samples) const {
    const State& state = move_to(samples);
    std::vector<std::uint64_t> counts = state.drawn;
    for (std::size_t set = 0; set < counts.size(); ++set) counts[set] += state.before[set];
    return counts;
}

}  // namespace roll::data
