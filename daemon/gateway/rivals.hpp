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
    // true if the earlier worker on the node is silent, so that the node may become free
    bool keep_asking = false;
};

// Returns why rolld refuses the worker that sent this heartbeat: an earlier worker runs under the
// same node name. Returns nullopt if rolld accepts the worker. `published` is the current counter
// of the beacon.
//
// An earlier worker with the same `home` has ended, so rolld accepts the new worker. Otherwise the
// earlier worker may still run its attempts until its lease and fence have ended. rolld then
// accepts the new worker only once State has lost the earlier worker, or if the earlier worker is
// silent and has no attempts. A worker that has sent no heartbeat since rolld's start may not have
// reconnected yet, so it counts as silent only after the time of the lease.
std::optional<Refusal> refusal_of(const core::State& state, const Sessions& sessions,
                                  const protocol::Heartbeat& heartbeat, std::uint64_t published,
                                  Instant now);

}  // namespace roll::gateway
