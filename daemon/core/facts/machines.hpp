// Decides from the faults of a machine whether to exclude the machine.
#pragma once

#include <string>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the machine that a node name stands for. Workers in Slurm allocations on one machine have
// different node names: "gpu7.a12" is on the machine "gpu7".
std::string machine_of(const std::string& node);

// Returns whether the worker's machine is excluded at present.
bool is_excluded(const State& state, const Worker& worker);

// Returns why the machine's faults after `since` suffice to exclude the machine; empty if these
// faults do not suffice.
std::string fault_of(const State& state, const Machine& machine, Time since);

// Returns whether this machine was excluded wrongly. This is so if other machines turned out to
// have had the same fault at the same time, and the machine's other faults do not suffice to
// exclude it.
bool was_innocent(const State& state, const Machine& machine);

}  // namespace roll::core
