#include "daemon/core/state/use.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/state/decay.hpp"

namespace roll::core {

std::int64_t weight(int slots, int gpu_hundredths) {
    return std::int64_t{slots} + std::int64_t{kGpuWeight} * gpu_hundredths / 100;
}

std::int64_t use_at(const Use& use, Time now, std::chrono::seconds half_life) {
    return decayed(use.decayed, weight(use.slots, use.gpu_hundredths),
                   std::max(now - use.at, Milliseconds(0)), half_life);
}

std::int64_t gpu_ms(const spec::Resources& resources, std::chrono::milliseconds held) {
    ROLL_CHECK(held.count() >= 0);
    const std::chrono::milliseconds limit = resources.time;
    if (limit.count() > 0) held = std::min(held, limit);
    return resources.gpu_hundredths() * held.count() / 100;
}

void change(Use& use, const spec::Resources& resources, int sign, Time at,
            std::chrono::seconds half_life) {
    ROLL_CHECK(sign == 1 || sign == -1);
    use.decayed = use_at(use, at, half_life);
    use.at = std::max(use.at, at);
    use.slots += sign * resources.slots();
    use.gpu_hundredths += sign * resources.gpu_hundredths();
    use.gpu_ms_due += sign * gpu_ms(resources, resources.time);
    ROLL_CHECK(use.slots >= 0 && use.gpu_hundredths >= 0 && use.gpu_ms_due >= 0);
}

}  // namespace roll::core
