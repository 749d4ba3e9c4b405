// CLOCK_BOOTTIME, the clock of bounds and leashes. It keeps running while the machine is
// suspended.
#pragma once

#include "worker/agent/lease.hpp"

namespace roll::agent {

Instant boot_now();

}  // namespace roll::agent
