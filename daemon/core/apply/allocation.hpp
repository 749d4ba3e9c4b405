// Applies events of allocation queues and of Slurm allocations.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

void on(State& s, const QueueAdded& e);
void on(State& s, const QueuePaused& e);
void on(State& s, const QueueRemoving& e);
void on(State& s, const QueueRemoved& e);
void on(State& s, const AllocationOrdered& e);
void on(State& s, const AllocationAccepted& e);
void on(State& s, const AllocationGranted& e);
void on(State& s, const AllocationReturned& e);
void on(State& s, const AllocationClosed& e);
void on(State& s, const AllocationReleasing& e);
void on(State& s, const AllocationEnded& e);
void on(State& s, const PilotJoined& e);

// Records that work on the worker has ended. The worker's allocation counts as idle from `at` on if
// no other work runs in it.
void note_used(State& s, WorkerId worker, Time at);

}  // namespace roll::core
