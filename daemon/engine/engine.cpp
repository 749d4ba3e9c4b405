#include "daemon/engine/engine.hpp"

namespace roll::engine {

core::Events Engine::run(std::span<const core::Input> inputs, Time now, Turn& turn) {
    core::Events batch;
    const auto take = [&](const core::Events& events) {
        for (const core::Event& event : events) {
            core::apply(state_, event);
            batch.push_back(event);
        }
    };
    for (const core::Input& input : inputs) {
        turn.replies.push_back(core::decide(state_, input, now));
        if (turn.replies.back()) take(*turn.replies.back());
    }
    for (const core::Rule rule : core::rules()) take(rule(state_, now));
    core::check_invariants(state_);
    return batch;
}

Result<void> Engine::undo(const Error& error, Turn& turn) {
    ROLL_TRY(state_, ledger_.load());
    for (auto& reply : turn.replies) {
        if (reply && !reply->empty()) reply = tl::unexpected(error);
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
        if (committed) turn.committed = batch.size();
        if (!committed) ROLL_TRY_VOID(undo(committed.error(), turn));
    }
    turn.owed = core::actions(state_);
    return turn;
}

}  // namespace roll::engine
