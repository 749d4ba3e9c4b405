// The actions that AgentCore asks its caller to carry out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/protocol/rank.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/core/lease.hpp"

namespace roll::agent {

// clang-format off
struct Start { protocol::StartOrder order; Instant lease_ends{}; Instant killed_at{}; };
struct SetLeash { AttemptKey attempt; Instant lease_ends{}; Instant killed_at{}; };
struct Tell { AttemptKey attempt; protocol::Command command; };      // sends a command to every rank, on its stdin
struct Terminate { AttemptKey attempt; };                            // sends SIGTERM to the attempt's process group
struct DumpStacks { AttemptKey attempt; };                           // makes the ranks write their stacks to their logs
struct Kill { AttemptKey attempt; };                                 // sends SIGKILL to all processes of the attempt
struct Publish { AttemptKey attempt; std::int64_t step = 0; std::string from; std::string to; Instant before{}; };
struct Remember { protocol::RunningAttempt entry; };                 // writes the entry to the run directory
struct Forget { AttemptKey attempt; };
struct HeartbeatNow { };                                             // sends a heartbeat at once
struct HeartbeatSoon { };                                            // sends a heartbeat soon
struct Note { std::string text; };                                   // writes the text to the log
// clang-format on
using Effect = std::variant<Start, SetLeash, Tell, Terminate, DumpStacks, Kill, Publish, Remember,
                            Forget, HeartbeatNow, HeartbeatSoon, Note>;

}  // namespace roll::agent
