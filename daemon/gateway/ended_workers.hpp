// Detects that all workers have ended, from the locks of workers on this machine.
#pragma once

#include <filesystem>

#include "daemon/core/state/state.hpp"

namespace roll::gateway {

// Returns whether State has workers, but none of them is a running process. `workers` is the
// directory DIR/worker, in which each worker of this machine has a run directory NODE with a lock.
// A worker has ended if its lock is free. A worker without a run directory may still run, for
// example in a Slurm allocation.
bool all_have_ended(const core::State& state, const std::filesystem::path& workers);

}  // namespace roll::gateway
