// Stops attempts that may not continue.
#pragma once

#include <string>

#include "daemon/core/state/event.hpp"

namespace roll::core {

inline constexpr const char* kTimeIsUp = "reached its time limit";
inline constexpr const char* kDeadline = "reached its deadline";

// Stops attempts that lost a member or exceeded their time limit, and attempts of cancelled jobs. A
// gang runs as a whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

// Returns a sentence that says that the job's attempt has reached its time limit or its deadline;
// empty if the attempt has reached neither.
std::string time_is_up(const Job& job, Time now);

}  // namespace roll::core
