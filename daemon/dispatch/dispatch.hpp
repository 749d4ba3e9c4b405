// Converts the actions that State requires into answers to workers. The functions are pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/worker.hpp"
#include "daemon/core/state/action.hpp"
#include "daemon/core/state/input.hpp"

namespace roll::dispatch {

// Returns the keep, start, stop and save orders for each worker. A worker without orders has no
// entry.
//
// `cluster` is the id of the ledger. An attempt's nonce, which names the rendezvous of its ranks,
// is derived from `cluster` and the attempt. A repeated start order therefore names the same
// rendezvous, even after a restart of rolld.
std::map<WorkerId, protocol::Answer> orders(const core::State& state,
                                            std::span<const core::Action> owed,
                                            const std::string& cluster);

// Adds to `answer` what rolld knows about the attempts in `running`: which of their checkpoints,
// exports and answers to requests are recorded, and which of these attempts are not current
// (FENCED).
void add_verdicts(const core::State& state, WorkerId worker,
                  std::span<const protocol::RunningAttempt> running, protocol::Answer& answer);

// Encodes `answer` in frames of at most `bytes_max` bytes. Distributes the start orders over the
// frames. Every frame names every attempt that the worker keeps, starts or stops, because the
// worker ends attempts that a frame does not name. A start order that is too large for a frame is
// replaced by an order that tells the worker why the attempt is refused. Requires that everything
// but the start orders fits into one frame.
std::vector<std::string> frames(protocol::Answer answer, std::size_t bytes_max);

}  // namespace roll::dispatch
