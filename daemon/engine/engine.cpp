#include "daemon/engine/engine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace roll::engine {

core::Events Engine::run(std::span<const core::Input> inputs, Time now, Turn& turn) {
    core::Events batch;
    const auto take = [&](core::Events&& events) {
        for (const core::Event& event : events) core::apply(state_, event);
        if (batch.empty())
            batch = std::move(events);
        else
            std::ranges::move(events, std::back_inserter(batch));
    };
    for (const core::Input& input : inputs) {
        Result<core::Events> decided = core::decide(state_, input, now);
        turn.replies.push_back(decided.map([](const auto& events) { return !events.empty(); }));
        if (decided) take(*std::move(decided));
    }
    // A later rule may enable an earlier one, for example by releasing an allocation. Repeat the
    // rules until none returns events.
    int rounds = 0;
    for (std::size_t before = batch.size() + 1; before != batch.size(); ++rounds) {
        turn.restless = rounds == kRoundsMax;
        if (turn.restless) break;
        before = batch.size();
        for (const core::Rule rule : rules_) take(rule(state_, now));
    }
    if (!batch.empty()) core::check_running(state_);
    return batch;
}

// Undoes the turn after a refused commit. Decides each input again on the State that the ledger has
// stored: the first reply to an input may have depended on other inputs of the turn.
Result<void> Engine::undo(std::span<const core::Input> inputs, Time now, const Error& error,
                          Turn& turn) {
    if (!durable_) {
        ROLL_TRY(durable_, ledger_.load());
    }
    state_ = *durable_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        turn.replies[i] = core::decide(state_, inputs[i], now).and_then([&](const auto& events) {
            return events.empty() ? Result<bool>(false) : tl::unexpected(error);
        });
    }
    return {};
}

Result<Turn> Engine::step(std::span<const core::Input> inputs, Time now) {
    Turn turn;
    const core::Events batch = run(inputs, now, turn);
    if (!batch.empty()) {
        const auto committed = ledger_.commit(batch, now);
        if (!committed && committed.error().code != ErrorCode::Refused)
            return tl::unexpected(committed.error());
        if (committed) {
            turn.committed = batch.size();
            durable_.reset();
        } else {
            turn.full = true;
            ROLL_TRY_VOID(undo(inputs, now, committed.error(), turn));
        }
    }
    turn.owed = core::actions(state_);
    return turn;
}

}  // namespace roll::engine
