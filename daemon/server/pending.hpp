// Requests that are not answered yet, and from whom they are.
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
struct Waiting {  // an `events` request that is held back
    Peer peer;
    std::uint64_t id = 0;
    std::int64_t since = 0;
    int limit = 0;
    std::optional<JobId> job;
    Instant until{};
};
struct Asked {  // a request that an input of this turn answers
    std::vector<std::size_t> inputs;
    Peer peer;
    std::uint64_t id = 0;
    std::function<Json(bool changed)> reply;  // changed: the inputs brought events
};

}  // namespace roll::server
