// The daemon's core: pure functions over State. It uses no sockets, SQL, clock, floating point or
// randomness.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "daemon/core/action.hpp"
#include "daemon/core/input.hpp"

namespace roll::core {

// Judges one input and returns its events. An Error is a refusal, which changes nothing; an empty
// result means that nothing is new. An input about an attempt that is not current yields no events
// and no error, because the answer to the worker reports the attempt as FENCED.
Result<Events> decide(const State& state, const Input& input, Time now);

// Applies an event to State. State changes in no other way, neither live nor in replay. ROLL_CHECKs
// that the event is legal.
void apply(State& state, const Event& event);

// Returns whether the worker has a member of the job's current attempt that has not ended. If not,
// what the worker says about the attempt is out of date and is answered with FENCED.
bool is_current(const State& state, WorkerId worker, const AttemptKey& key);

// A rule derives events from State. Each file of the folder rules/ has one rule, or a few rules
// about the same thing. A turn runs the rules in order, each on the result of the previous ones,
// and repeats this until no rule returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

// Returns what each worker must do: keep, start, stop or save attempts.
std::vector<Action> actions(const State& state);

// Returns the Slurm operations that are required, one per allocation.
std::vector<SlurmAction> slurm_actions(const State& state);

// Returns the earliest time at which a rule may act although no input arrives, for example because
// a back-off ends or a time limit is reached; nullopt if there is none.
std::optional<Time> next_wakeup(const State& state, Time now);

// ROLL_CHECKs the invariants of running attempts, between turns. Takes time proportional to the
// running jobs.
void check_running(const State& state);
// ROLL_CHECKs all invariants, including the index. Takes time proportional to the whole State, and
// is meant for tests and the simulator.
void check_invariants(const State& state);

}  // namespace roll::core
