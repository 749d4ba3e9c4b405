// Converts the actions that State requires into answers of the worker protocol. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/worker.hpp"
#include "daemon/core/core.hpp"

namespace roll::dispatch {

// Returns the keep, start and stop orders of each worker. A worker without any has no entry.
// `cluster` names the ledger. The nonces of the ranks' rendezvous derive from it, so that a start
// order repeated by this or a restarted rolld names the same rendezvous.
std::map<WorkerId, protocol::Answer> orders(const core::State& state,
                                            std::span<const core::Action> owed,
                                            const std::string& cluster);

// Adds to `answer` which checkpoints of the worker's `running` attempts are recorded, and which
// attempts are not current (FENCED).
void add_verdicts(const core::State& state, WorkerId worker,
                  std::span<const protocol::RunningAttempt> running, protocol::Answer& answer);

// Encodes `answer` in frames of at most `bytes_max` bytes. Start orders are split over the
// frames; each frame names every attempt that the worker keeps, starts or stops, so that the
// worker forgets none. A start order too large for its own frame is sent as a refusal. Requires
// that everything but the start orders fits into one frame.
std::vector<std::string> frames(protocol::Answer answer, std::size_t bytes_max);

}  // namespace roll::dispatch
