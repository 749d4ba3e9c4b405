// The daemon's core: pure functions over State. No sockets, SQL, clock, floating point or
// randomness.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "daemon/core/action.hpp"
#include "daemon/core/input.hpp"

namespace roll::core {

// Judges one claim and returns its events. An Error is a refusal and changes nothing; an empty
// result means nothing new. A claim about an attempt that is not current yields no events, not an
// error; the answer to the worker reports the attempt as FENCED.
Result<Events> decide(const State& state, const Input& input, Time now);

// Applies an event to State. Nothing else changes State, whether live or in replay. ROLL_CHECKs
// that the event is legal.
void apply(State& state, const Event& event);

// Returns whether the worker has a member of the job's current attempt that has not ended.
// Otherwise the worker's claims about the attempt are stale and answered with FENCED.
bool is_current(const State& state, WorkerId worker, const AttemptKey& key);

// A rule derives events from State; rules/ has one rule's policy per file. A turn runs the rules in
// order, each on the result of the previous ones, until none returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

// Returns what each worker should be doing.
std::vector<Action> actions(const State& state);

// Returns the required Slurm operations, one entry per allocation.
std::vector<SlurmAction> slurm_actions(const State& state);

// Returns the number of consecutive failures without a newer checkpoint if a training job's
// attempt ends with `outcome`.
int stalled_after(const Job& job, Outcome outcome);

// Returns the earliest time at which a rule may act without other input (a back-off ends, a time
// limit is reached).
std::optional<Time> next_wakeup(const State& state, Time now);

// ROLL_CHECKs the invariants of running attempts between turns. Cost: proportional to running
// jobs.
void check_running(const State& state);
// Checks all invariants, including the index. Cost: proportional to all of State. For tests and
// the simulator.
void check_invariants(const State& state);

}  // namespace roll::core
