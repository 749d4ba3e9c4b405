// The halves of apply() and decide() that deal with allocations, and what the rules ask of them.
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

// What a worker's hello says of the allocation that it came with. Refused: it is none of ours.
Result<Events> welcome_pilot(const State& s, const Pilot& pilot, Time now);

// Work on this worker has ended: its allocation may be idle from now on.
void note_used(State& s, WorkerId worker, Time at);

// How many live workers an allocation has.
int live_workers(const State& s, AllocationId id);

// How many allocations the queue's limits ever allow at once, if `alive` of it are.
int most_alive(const AllocationQueue& queue, int alive);

// When a rule on allocations has something to do though nothing else happens.
std::optional<Time> allocation_wakeup(const State& s, Time now);

void check_allocations(const State& s);

// True if the worker may be given something new; `excluded`: even if its machine is left out.
bool takes_work(const State& state, const Worker& worker, bool excluded = false);

// When the jobs of a worker must leave it, if that is known.
std::optional<Time> leaves_at(const State& state, const Worker& worker);

// When each granted allocation goes back: its queue's handover before its end, or earlier if a job
// in it has shown that its saves need more (save_margin), by a quarter of the queue's time at most.
std::map<AllocationId, Time> go_back_at(const State& state);

// True if a job that starts now can run its whole time before that.
bool has_time_for(const std::optional<Time>& leaves, const spec::Resources& wanted, Time now);

}  // namespace roll::core
