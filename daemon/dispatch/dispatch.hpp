// What each worker should hear: State's owed actions as the answers of the worker protocol. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/worker.hpp"
#include "daemon/core/core.hpp"

namespace roll::dispatch {

// Per worker its keep, start and stop orders. A worker that owes nothing has no entry. `cluster`
// names the ledger: the nonces of the ranks' rendezvous are drawn from it, so that a start order
// said twice, or by a restarted rolld, names the same meeting place.
std::map<WorkerId, protocol::Answer> orders(const core::State& state,
                                            std::span<const core::Action> owed,
                                            const std::string& cluster);

// What rolld knows of what the worker says it runs: which checkpoints are recorded, and which
// attempts are not current (FENCED).
void add_verdicts(const core::State& state, WorkerId worker,
                  std::span<const protocol::RunningAttempt> running, protocol::Answer& answer);

// Encodes `answer` in frames of at most `bytes_max` bytes. Start orders are split over the frames;
// each frame names every attempt that the worker keeps, starts or stops, so that the worker forgets
// none. A start order that is too large for a frame of its own goes out as refused. Requires that
// all but the start orders fits into one frame.
std::vector<std::string> frames(protocol::Answer answer, std::size_t bytes_max);

}  // namespace roll::dispatch
