// The daemon's core: four pure functions over State. No sockets, SQL, clock, floating point,
// randomness.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "daemon/core/action.hpp"
#include "daemon/core/input.hpp"

namespace roll::core {

// Judges one claim. An Error is a refusal and changes nothing; no events means: nothing new.
// A claim about an attempt that is not current is no error: it yields no events (the answer to the
// worker, read off State, tells it FENCED).
Result<Events> decide(const State& state, const Input& input, Time now);

// The only code that changes State; the same live and in replay. ROLL_CHECKs that the event is
// legal.
void apply(State& state, const Event& event);

// Whether the worker has a member of the job's current attempt that has not ended: else its claims
// about it are stale, and it is answered FENCED.
bool is_current(const State& state, WorkerId worker, const AttemptKey& key);

// Draws consequences, one policy a file in rules/. A turn runs them in order, each on what the
// earlier ones left, until every rule returns nothing.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

// What each worker should be doing, read off State.
std::vector<Action> actions(const State& state);

// What Slurm should be told, read off State: one entry an allocation.
std::vector<SlurmAction> slurm_actions(const State& state);

// Bad ends in a row without a newer checkpoint, of a job that trains, if its attempt ends so.
int stalled_after(const Job& job, Outcome outcome);

// The earliest instant at which a rule has something to do though nothing else happens (a back-off
// ends, a time limit is reached).
std::optional<Time> next_wakeup(const State& state, Time now);

// ROLL_CHECKs what must hold of running attempts between turns: costs what runs.
void check_running(const State& state);
// All that must hold, the index included: costs what ever was. For tests and the simulator.
void check_invariants(const State& state);

}  // namespace roll::core
