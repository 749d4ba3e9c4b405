// Which workers have certainly ended, where that can be seen from here.
#pragma once

#include <filesystem>

#include "daemon/core/core.hpp"

namespace roll::gateway {

// True if State has workers and none of them is a living process: each has a run directory below
// `workers` (DIR/worker/NODE), and nobody holds its lock. A worker without such a directory, one
// that Slurm started among them, may live.
bool all_have_ended(const core::State& state, const std::filesystem::path& workers);

}  // namespace roll::gateway
