// Detects that the node of a heartbeat already has another roll-worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/gateway/sessions.hpp"

namespace roll::gateway {

// Why rolld refuses a worker.
struct Refusal {
    std::string why;
    bool keep_asking = false;  // the other worker is silent, so the node may become free
};

// Returns why rolld refuses the worker that sent this heartbeat: an earlier worker runs under the
// same node name. Returns nullopt if rolld accepts the worker. `published` is the current counter
// of the beacon.
//
// An earlier worker with the same `home` has ended, so the new worker takes its place. Any other
// earlier worker may still run its attempts until its lease and fence have ended. Its place is
// therefore taken only when State has lost it, or when it is silent and has no attempts. If it has
// sent no heartbeat since rolld's start, it keeps its place for the time of the lease, because it
// may not have reconnected yet.
std::optional<Refusal> refusal_of(const core::State& state, const Sessions& sessions,
                                  const protocol::Heartbeat& heartbeat, std::uint64_t published,
                                  Instant now);

}  // namespace roll::gateway
