#include "daemon/gateway/rivals.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "daemon/core/facts/lookups.hpp"

namespace roll::gateway {

std::string refusal_of(const core::State& state, const Sessions& sessions,
                       const protocol::Heartbeat& heartbeat, Instant now) {
    const auto known = state.sessions.find(heartbeat.node);
    if (heartbeat.home.empty() || known == state.sessions.end()) return "";
    const std::string& newest = known->second.back();
    const auto worker = state.index.by_session.find(newest);
    const auto session = sessions.all().find(newest);
    if (newest == heartbeat.session || worker == state.index.by_session.end() ||
        session == sessions.all().end())
        return "";
    const protocol::Heartbeat& other = session->second.last;
    if (other.home.empty() || other.home == heartbeat.home) return "";
    const auto beat = std::chrono::milliseconds(std::max(other.beat_ms, 1000));
    const bool is_silent = now - session->second.heard_at > 2 * beat + beat / 2;
    if (is_silent && !core::is_busy(state, worker->second)) return "";
    return fmt::format(
        "node {} already runs a roll-worker ({}); start this roll-worker with another --node, or "
        "end the other roll-worker",
        heartbeat.node, other.process);
}

}  // namespace roll::gateway
