// Temporarily excludes machines that keep failing.
//
// The policy sets how many faults, within what time, exclude a machine. The faults must come from
// at least two jobs, because one job may cause faults everywhere. A machine is excluded at once if
// a check of the machine itself fails. If only one machine still takes jobs, it is not excluded.
//
// An excluded machine is used again if a ready job fits on no other machine. A machine whose own
// check failed stays excluded for the whole time, because no job can run there.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Temporarily excludes machines on which attempts keep failing.
Events exclude_machines(const State& state, Time now);

}  // namespace roll::core
