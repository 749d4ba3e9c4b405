#include "daemon/core/facts/save_margin.hpp"

#include <algorithm>

namespace roll::core {

std::chrono::milliseconds save_margin(const std::vector<std::int64_t>& save_ms) {
    if (save_ms.empty()) return {};
    std::vector<std::int64_t> sorted = save_ms;
    std::ranges::sort(sorted);
    // position of the percentile, counted from 1
    const std::size_t rank = (99 * sorted.size() + 99) / 100;
    return std::chrono::milliseconds(sorted[rank - 1]) + kSaveSlack;
}

std::chrono::milliseconds run_limit(std::chrono::milliseconds limit,
                                    const std::vector<std::int64_t>& save_ms) {
    return limit - std::min(save_margin(save_ms), limit / 4);
}

}  // namespace roll::core
