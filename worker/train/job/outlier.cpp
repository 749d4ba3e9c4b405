#include "worker/train/job/outlier.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace roll::train {
namespace {

constexpr std::size_t kValuesLeast = 16;
constexpr double kShareLeast = 0.05;
// ratio of the standard deviation of a normal distribution to its median absolute deviation
constexpr double kNormal = 1.4826;

// Returns the median. For an even number of values, returns the upper of the two middle values.
double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

std::optional<OutlierLimit> outlier_limit(std::span<const double> values, double deviations) {
    if (values.size() < kValuesLeast) return std::nullopt;
    std::vector<double> sorted(values.begin(), values.end());
    const double level = median(sorted);
    for (double& value : sorted) value = std::abs(value - level);
    const double noise = deviations * kNormal * median(sorted);
    return OutlierLimit{level, level + std::max(noise, kShareLeast * std::abs(level))};
}

}  // namespace roll::train
