// Requests that are not answered yet, with their senders.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "daemon/core/core.hpp"
#include "daemon/gateway/authenticator.hpp"
#include "daemon/gateway/sessions.hpp"

namespace roll::server {

using gateway::Identity;
using gateway::Instant;
using gateway::Peer;

struct Client {
    Peer peer;
    Identity who;
};
// A request that is being handled.
struct Asking {
    Peer peer;
    std::uint64_t id = 0;
};
struct WaitingForEvents {
    Peer peer;
    std::uint64_t id = 0;
    std::int64_t since = 0;
    int limit = 0;
    std::optional<JobId> job;
    Instant until{};
};
// A request that is answered at the end of this turn.
struct TurnReply {
    // The request's inputs are the `count` inputs of the turn from index `first` on.
    std::size_t first = 0, count = 0;
    Peer peer;
    std::uint64_t id = 0;
    std::function<Json(const core::State& state, bool changed)> reply;
};

}  // namespace roll::server
