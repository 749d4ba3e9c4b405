// Wall-clock times, as used in State, events and messages. Leases use steady clocks instead
// (CLOCK_BOOTTIME in the worker, CLOCK_MONOTONIC in rolld).
#pragma once

#include <chrono>
#include <string>

namespace roll {

using Time = std::chrono::sys_time<std::chrono::milliseconds>;

// Returns the system clock's time. Must not be called in the pure folders (daemon/core,
// worker/plan).
Time wall_clock_now();

// Formats a time as "2026-11-21T09:30:00.125Z".
std::string to_iso8601(Time time);

}  // namespace roll
