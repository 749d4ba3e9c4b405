// Tells whether another roll-worker runs as the node of a heartbeat.
#pragma once

#include <string>

#include "daemon/gateway/sessions.hpp"

namespace roll::gateway {

// Returns why rolld does not take the worker that sent this heartbeat: another worker runs as its
// node. Empty if rolld takes it.
//
// A worker with the same `home` has ended, so this one takes its place. Any other worker may still
// run its attempts until its lease and fence have ended. Its place is therefore taken only when
// State has lost it, or when it is silent and has no attempts.
std::string refusal_of(const core::State& state, const Sessions& sessions,
                       const protocol::Heartbeat& heartbeat, Instant now);

}  // namespace roll::gateway
