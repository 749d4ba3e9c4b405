#include "worker/agent/process/clock.hpp"

#include <ctime>

namespace roll::agent {

Instant boot_now() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::duration_cast<Instant>(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace roll::agent
