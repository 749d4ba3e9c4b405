// The functions of apply() and decide() for allocations, and queries that the rules use.
#pragma once

#include <map>
#include <optional>

#include "daemon/core/core.hpp"

namespace roll::core {

// clang-format off
void on(State& s, const QueueAdded& e);
void on(State& s, const QueuePaused& e);
void on(State& s, const QueueRemoving& e);
void on(State& s, const QueueRemoved& e);
void on(State& s, const AllocationOrdered& e);
void on(State& s, const AllocationAccepted& e);
void on(State& s, const AllocationGranted& e);
void on(State& s, const AllocationReturned& e);
void on(State& s, const AllocationReleasing& e);
void on(State& s, const AllocationEnded& e);
void on(State& s, const PilotJoined& e);

Result<Events> on(const State& s, const AddQueue& in, Time now);
Result<Events> on(const State& s, const PauseQueue& in, Time now);
Result<Events> on(const State& s, const RemoveQueue& in, Time now);
Result<Events> on(const State& s, const OrderAnswered& in, Time now);
Result<Events> on(const State& s, const OrderSeen& in, Time now);
Result<Events> on(const State& s, const OrderMissing& in, Time now);
// clang-format on

// Returns the events for the allocation in a new worker's first heartbeat. Fails with Refused if
// rolld did not order that allocation.
Result<Events> welcome_pilot(const State& s, const Pilot& pilot, Time now);

// Records that work on the worker has ended. The worker's allocation counts as idle from `at` on,
// unless other work runs in it.
void note_used(State& s, WorkerId worker, Time at);

// Returns the number of live workers of an allocation.
int live_workers(const State& s, AllocationId id);

// Returns the maximum number of allocations that the queue's limits allow at once while `alive` of
// its allocations are alive.
int most_alive(const AllocationQueue& queue, int alive);

// Returns the earliest time at which a rule about allocations may act although no input arrives;
// nullopt if there is none.
std::optional<Time> allocation_wakeup(const State& s, Time now);

void check_allocations(const State& s);

// Returns the time at which each granted allocation is given back: the queue's `handover` before
// the allocation's end, or up to a quarter of the queue's `time` earlier if a job in it needs more
// time to save (save_margin).
std::map<AllocationId, Time> go_back_at(const State& state);

}  // namespace roll::core
