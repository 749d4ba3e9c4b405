// Detects workers on this machine that have certainly ended.
#pragma once

#include <filesystem>

#include "daemon/core/core.hpp"

namespace roll::gateway {

// Returns true if State has workers and none of them is a running process. Each must have a run
// directory below `workers` (DIR/worker/NODE) whose lock is free. A worker without such a
// directory, for example one started by Slurm, may be running.
bool all_have_ended(const core::State& state, const std::filesystem::path& workers);

}  // namespace roll::gateway
