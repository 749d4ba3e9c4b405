// Requests that are not answered yet, with their senders.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"
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
struct Waiting {  // an `events` request that waits for new events
    Peer peer;
    std::uint64_t id = 0;
    std::int64_t since = 0;
    int limit = 0;
    std::optional<JobId> job;
    Instant until{};
};
struct Asked {  // a request that is answered at the end of this turn
    std::vector<std::size_t> inputs;
    Peer peer;
    std::uint64_t id = 0;
    std::function<Json(bool changed)> reply;  // `changed` says whether the inputs produced events
};

}  // namespace roll::server
