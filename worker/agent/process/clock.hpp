// Reads CLOCK_BOOTTIME, which keeps running while the machine is suspended. The deadlines for
// stopping and killing attempts use this clock.
#pragma once

#include "worker/agent/core/lease.hpp"

namespace roll::agent {

Instant boot_now();

}  // namespace roll::agent
