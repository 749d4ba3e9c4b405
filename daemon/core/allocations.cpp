#include "daemon/core/allocations.hpp"

#include <algorithm>

namespace roll::core {

int live_workers(const State& s, AllocationId id) {
    return static_cast<int>(std::ranges::count_if(
        s.workers, [&](const auto& item) { return item.second.allocation == id; }));
}

}  // namespace roll::core
