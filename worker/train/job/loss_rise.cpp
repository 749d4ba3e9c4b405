#include "worker/train/job/loss_rise.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace roll::train {
namespace {

constexpr std::size_t kKept = 1000, kCalm = 50, kCalmLeast = 16, kLevel = 200;
constexpr double kDeviations = 9, kShare = 0.05;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

bool is_high(double loss, const std::deque<double>& calm) {
    if (calm.size() < kCalmLeast) return false;
    std::vector<double> values(calm.begin(), calm.end());
    const double level = median(values);
    for (double& value : values) value = std::abs(value - level);
    return loss - level > std::max(kDeviations * median(std::move(values)), kShare * level);
}

}  // namespace

void LossHistory::add(std::int64_t step, double loss) {
    while (!steps_.empty() && steps_.back().step >= step) steps_.pop_back();
    steps_.push_back({step, loss});
    if (steps_.size() > kKept) steps_.pop_front();
}

std::optional<std::int64_t> LossHistory::rise() const {
    std::deque<double> calm;
    std::vector<Step> high;
    const auto add_calm = [&](double loss) {
        calm.push_back(loss);
        if (calm.size() > kCalm) calm.pop_front();
    };
    for (const Step& one : steps_) {
        if (!is_high(one.loss, calm)) {
            add_calm(one.loss);
            high.clear();
            continue;
        }
        high.push_back(one);
        if (high.size() < kLevel) continue;
        for (const Step& step : high) add_calm(step.loss);
        high.clear();
    }
    return high.empty() ? std::nullopt : std::optional(high.front().step);
}

}  // namespace roll::train
