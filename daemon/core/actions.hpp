// The actions that State requires.
#pragma once

#include <vector>

#include "daemon/core/state/action.hpp"

namespace roll::core {

// Returns what each worker must do: keep, start, stop or save attempts.
std::vector<Action> actions(const State& state);

// Returns the Slurm operations that are required, one per allocation.
std::vector<SlurmAction> slurm_actions(const State& state);

}  // namespace roll::core
