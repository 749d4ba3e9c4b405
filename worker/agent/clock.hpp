// CLOCK_BOOTTIME, by which bounds and leashes are measured: it runs on while the machine is
// suspended.
#pragma once

#include "worker/agent/lease.hpp"

namespace roll::agent {

Instant boot_now();

}  // namespace roll::agent
