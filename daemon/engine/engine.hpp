// Runs one turn of the daemon: decides, applies and commits events, and returns the required
// actions.
//
// step() runs to completion without suspending. Workers and clients see a new State only after the
// ledger has stored its events.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "daemon/core/core.hpp"

namespace roll::engine {

// The functions that make events durable. Only one thread calls them.
struct Ledger {
    // Returns once the events are durable. Refused means that the volume is full: nothing was
    // written, and later calls may succeed. Any other error is fatal, because only a restart can
    // find out what is on disk.
    std::function<Result<void>(std::span<const core::Event>, Time now)> commit;
    // Returns State as the ledger has stored it. Called after a refused commit.
    std::function<Result<core::State>()> load;
};

struct Turn {
    // For each input, in the order of the inputs: whether it changed State, or why it was refused
    std::vector<Result<bool>> replies;
    std::vector<core::Action> owed;
    std::size_t committed = 0;  // number of committed events
    // True if the ledger's volume is full. Nothing was committed; call step() again soon.
    bool full = false;
    // True if the rules still returned events after kRoundsMax rounds. This is a bug in the rules.
    bool restless = false;
};

// Maximum number of rounds of the rules in a turn. Most turns need two or three rounds.
inline constexpr int kRoundsMax = 32;

class Engine {
  public:
    Engine(core::State state, Ledger ledger, std::span<const core::Rule> rules = core::rules())
        : state_(std::move(state)),
          ledger_(std::move(ledger)),
          rules_(rules) {}

    // Runs one turn: the inputs in order, then the rules. Rules that still return events after
    // kRoundsMax rounds continue in the next turn.
    //
    // If the ledger's volume is full, the turn is undone: each input that would have changed
    // something is answered with Refused, and running jobs continue. Any other error of the ledger
    // is returned and is fatal.
    Result<Turn> step(std::span<const core::Input> inputs, Time now);

    const core::State& state() const { return state_; }

  private:
    core::Events run(std::span<const core::Input> inputs, Time now, Turn& turn);
    Result<void> undo(std::span<const core::Input> inputs, Time now, const Error& error,
                      Turn& turn);

    core::State state_;
    // State as stored in the ledger; set while the volume is full.
    std::optional<core::State> durable_{};
    Ledger ledger_;
    std::span<const core::Rule> rules_;
};

}  // namespace roll::engine
