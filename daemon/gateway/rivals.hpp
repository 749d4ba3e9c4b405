// Tells whether another roll-worker runs as the node of a heartbeat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/gateway/sessions.hpp"

namespace roll::gateway {

// Why rolld does not take a worker.
struct Refusal {
    std::string why;
    bool keep_asking = false;  // the other worker is silent, so the node may become free
};

// Returns why rolld does not take the worker that sent this heartbeat: another worker runs as its
// node. nullopt if rolld takes it. `published` is the current counter of the beacon.
//
// A worker with the same `home` has ended, so this one takes its place. Any other worker may still
// run its attempts until its lease and fence have ended. Its place is therefore taken only when
// State has lost it, or when it is silent and has no attempts. A worker that has sent no heartbeat
// since rolld's start keeps its place for the lease, because it may not have reconnected yet.
std::optional<Refusal> refusal_of(const core::State& state, const Sessions& sessions,
                                  const protocol::Heartbeat& heartbeat, std::uint64_t published,
                                  Instant now);

}  // namespace roll::gateway
