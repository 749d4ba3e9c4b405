// Detects that the node of a heartbeat already has another roll-worker.
#pragma once

#include <string>

#include "daemon/gateway/sessions.hpp"

namespace roll::gateway {

// Returns why rolld refuses the worker that sent this heartbeat: another worker already runs under
// this node name. Empty if rolld accepts the worker.
//
// If the other worker has the same `home`, it has ended, and the new one replaces it. Otherwise,
// the other worker may still run its attempts until lease and fence have ended. It is replaced only
// if State has lost it, or if it is silent and has no attempts.
std::string refusal_of(const core::State& state, const Sessions& sessions,
                       const protocol::Heartbeat& heartbeat, Instant now);

}  // namespace roll::gateway
