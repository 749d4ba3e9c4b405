// Applies events of workers and of machines with faults.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

void on(State& s, const WorkerJoined& e);
void on(State& s, const WorkerDrained& e);
void on(State& s, const WorkerQuiet& e);
void on(State& s, const WorkerLost& e);
void on(State& s, const MachineExcluded& e);
void on(State& s, const MachineForgiven& e);

}  // namespace roll::core
