// One turn of the daemon: decide, apply, commit, and say what is owed.
//
// step() runs to completion: it never suspends, and nothing outside sees State before the ledger
// has it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "daemon/core/core.hpp"

namespace roll::engine {

// Where events become durable. Called by one thread.
struct Ledger {
    // Durable on return. Refused: the volume is full, nothing was written, later calls may succeed.
    // Any other error is fatal for the process: what is on disk is unknown until a restart reads
    // it.
    std::function<Result<void>(std::span<const core::Event>, Time now)> commit;
    // State as the ledger holds it; used after a refused commit.
    std::function<Result<core::State>()> load;
};

struct Turn {
    std::vector<Result<core::Events>> replies;  // one for each input, in order
    std::vector<core::Action> owed;
    std::size_t committed = 0;  // events
    bool full = false;          // the ledger's volume is: nothing was committed, step again soon
    bool restless =
        false;  // the rules did not come to rest: a bug, and the turn ended all the same
};

// How often the rules go round in a turn: two or three times is usual.
inline constexpr int kRoundsMax = 32;

class Engine {
  public:
    Engine(core::State state, Ledger ledger, std::span<const core::Rule> rules = core::rules())
        : state_(std::move(state)),
          ledger_(std::move(ledger)),
          rules_(rules) {}

    // Bounded: rules that give each other something to do without end are left until the next turn.
    // An Error is fatal. When the ledger's volume is full the turn is undone: every input that
    // would have changed something is answered Refused, and what runs goes on.
    Result<Turn> step(std::span<const core::Input> inputs, Time now);

    const core::State& state() const { return state_; }

  private:
    core::Events run(std::span<const core::Input> inputs, Time now, Turn& turn);
    Result<void> undo(std::span<const core::Input> inputs, Time now, const Error& error,
                      Turn& turn);

    core::State state_;
    std::optional<core::State> durable_{};  // while the volume is full: what the ledger holds
    Ledger ledger_;
    std::span<const core::Rule> rules_;
};

}  // namespace roll::engine
