#include "worker/train/job/loss_rise.hpp"

#include <vector>

#include "worker/train/job/outlier.hpp"

namespace roll::train {
namespace {

constexpr std::size_t kKept = 1000, kCalm = 50, kLevel = 200;
constexpr double kDeviations = 6;

}  // namespace

void LossHistory::add(std::int64_t step, double loss) {
    while (!steps_.empty() && steps_.back().step >= step) steps_.pop_back();
    steps_.push_back({step, loss});
    if (steps_.size() > kKept) steps_.pop_front();
}

std::optional<std::int64_t> LossHistory::rise() const {
    std::vector<double> calm;
    std::vector<Step> high;
    const auto add_calm = [&](double loss) {
        calm.push_back(loss);
        if (calm.size() > kCalm) calm.erase(calm.begin());
    };
    for (const Step& one : steps_) {
        const auto limit = outlier_limit(calm, kDeviations);
        if (!limit || one.loss <= limit->limit) {
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
