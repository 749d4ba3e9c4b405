// Runs one turn of the daemon: decides, applies and commits, and returns the required actions.
//
// step() runs to completion without suspending, and State is not visible outside before the
// ledger holds it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "daemon/core/core.hpp"

namespace roll::engine {

// Makes events durable. Called by one thread.
struct Ledger {
    // Returns after the events are durable. Fails with Refused if the volume is full; then nothing
    // was written and later calls may succeed. Any other error is fatal, because what is on disk is
    // unknown until a restart reads it.
    std::function<Result<void>(std::span<const core::Event>, Time now)> commit;
    // Returns State as the ledger holds it; used after a refused commit.
    std::function<Result<core::State>()> load;
};

struct Turn {
    std::vector<Result<core::Events>> replies;  // one per input, in order
    std::vector<core::Action> owed;
    std::size_t committed = 0;  // number of committed events
    bool full = false;      // the ledger's volume is full: nothing was committed, step again soon
    bool restless = false;  // the rules did not converge: a bug; the turn ended anyway
};

// Maximum number of rounds of the rules in a turn; two or three are usual.
inline constexpr int kRoundsMax = 32;

class Engine {
  public:
    Engine(core::State state, Ledger ledger, std::span<const core::Rule> rules = core::rules())
        : state_(std::move(state)),
          ledger_(std::move(ledger)),
          rules_(rules) {}

    // Runs one turn. The number of rounds is limited; rules that keep enabling each other continue
    // in the next turn. An Error is fatal. If the ledger's volume is full, the turn is undone:
    // every input that would have changed something is answered with Refused, and running jobs
    // continue.
    Result<Turn> step(std::span<const core::Input> inputs, Time now);

    const core::State& state() const { return state_; }

  private:
    core::Events run(std::span<const core::Input> inputs, Time now, Turn& turn);
    Result<void> undo(std::span<const core::Input> inputs, Time now, const Error& error,
                      Turn& turn);

    core::State state_;
    std::optional<core::State> durable_{};  // while the volume is full: the ledger's State
    Ledger ledger_;
    std::span<const core::Rule> rules_;
};

}  // namespace roll::engine
