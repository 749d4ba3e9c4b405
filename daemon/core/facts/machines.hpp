// Decides from the faults of a machine whether to exclude the machine.
#pragma once

#include <string>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the machine that a node name stands for. Workers in Slurm allocations on one machine have
// different node names: "gpu7.a12" is on the machine "gpu7".
std::string machine_of(const std::string& node);

bool is_excluded(const State& state, const Worker& worker);

// Returns why the machine's faults after `since` suffice to exclude the machine; empty if these
// faults do not suffice.
std::string fault_of(const State& state, const Machine& machine, Time since);

// Returns whether other machines had the same kind of fault at the same time as this machine, so
// that this machine's faults no longer suffice to exclude it.
bool was_innocent(const State& state, const Machine& machine);

}  // namespace roll::core
