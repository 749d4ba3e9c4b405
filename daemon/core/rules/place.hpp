// Places the ready jobs.
#pragma once

#include <optional>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Places gangs on free slots and GPUs in the order of the queue. After the first gang that must
// wait, places only gangs that cannot delay this first gang (reservation.hpp).
Events place_jobs(const State& state, Time now);

// The first job in the queue that must wait. The job starts at the time `at` or earlier; nullopt if
// that time is unknown.
struct Promise {
    JobId job;
    std::optional<Time> at;
};
std::optional<Promise> promised(const State& state, Time now);

}  // namespace roll::core
