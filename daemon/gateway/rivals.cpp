#include "daemon/gateway/rivals.hpp"

#include <fmt/format.h>

#include "daemon/core/facts/lookups.hpp"

namespace roll::gateway {

std::optional<Refusal> refusal_of(const core::State& state, const Sessions& sessions,
                                  const protocol::Heartbeat& heartbeat, std::uint64_t published,
                                  Instant now) {
    const auto known = state.sessions.find(heartbeat.node);
    if (heartbeat.home.empty() || known == state.sessions.end()) return std::nullopt;
    const std::string& newest = known->second.back();
    const auto worker = state.index.by_session.find(newest);
    if (newest == heartbeat.session || worker == state.index.by_session.end()) return std::nullopt;
    const auto session = sessions.all().find(newest);
    const bool heard = session != sessions.all().end();
    std::string home = state.workers.at(worker->second).home;
    if (home.empty() && heard) home = session->second.last.home;
    if (home.empty() || home == heartbeat.home) return std::nullopt;
    const std::string other =
        heard ? session->second.last.process : "no heartbeat since the start of rolld";
    if (heard && now - session->second.heard_at <= two_missed_beats(session->second))
        return Refusal{
            fmt::format("node {} already runs a roll-worker ({}); start this roll-worker "
                        "with another --node, or end the other roll-worker",
                        heartbeat.node, other)};
    const bool may_return = !heard && !sessions.is_silent(state, worker->second, published);
    if (!may_return && !core::is_busy(state, worker->second)) return std::nullopt;
    return Refusal{fmt::format("node {} belongs to a silent roll-worker ({}) until rolld counts "
                               "that roll-worker as lost; to start at once, use another --node",
                               heartbeat.node, other),
                   true};
}

}  // namespace roll::gateway
