#include "worker/agent/core/memory_curve.hpp"

#include <algorithm>

namespace roll::agent {
namespace {

// Halves the number of values: replaces each pair of neighbouring values by the larger one.
void halve(MemoryCurve& curve) {
    std::vector<std::int64_t> halved;
    for (std::size_t i = 0; i < curve.mebibytes.size(); ++i) {
        const std::int64_t value = curve.mebibytes[i];
        if (i % 2 == 0) {
            halved.push_back(value);
        } else {
            halved.back() = std::max(halved.back(), value);
        }
    }
    curve.mebibytes = std::move(halved);
    curve.every *= 2;
}

}  // namespace

void add_memory(MemoryCurve& curve, std::int64_t bytes, Instant now) {
    constexpr std::int64_t kMebibyte = 1 << 20;
    if (!curve.begin) curve.begin = now;
    const auto index = [&] { return static_cast<std::size_t>((now - *curve.begin) / curve.every); };
    while (index() >= kMemoryValuesMax) halve(curve);
    const std::int64_t value = (bytes + kMebibyte / 2) / kMebibyte;
    // Fill the intervals without a measurement with the last value.
    const std::int64_t last = curve.mebibytes.empty() ? value : curve.mebibytes.back();
    while (curve.mebibytes.size() < index()) curve.mebibytes.push_back(last);
    if (curve.mebibytes.size() == index()) curve.mebibytes.push_back(value);
    curve.mebibytes.back() = std::max(curve.mebibytes.back(), value);
}

}  // namespace roll::agent
