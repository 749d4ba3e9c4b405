// Wall-clock instants as State, events and messages carry them. Leases never use these: they count
// on a steady clock (CLOCK_BOOTTIME in the worker, CLOCK_MONOTONIC in rolld).
#pragma once

#include <chrono>
#include <string>

namespace roll {

using Time = std::chrono::sys_time<std::chrono::milliseconds>;

// The system's clock now. Never called in the pure folders (daemon/core, worker/plan).
Time wall_clock_now();

// "2026-11-21T09:30:00.125Z".
std::string to_iso8601(Time time);

}  // namespace roll
