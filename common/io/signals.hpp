// Delivers signals through a readable descriptor instead of handlers.
#pragma once

#include <initializer_list>
#include <optional>

#include "common/io/descriptor.hpp"

namespace roll::io {

// Blocks `signals` in this thread and in the threads that this thread starts later. The returned
// descriptor queues the blocked signals. Also ignores SIGPIPE. Call this function before any thread
// is started.
Descriptor queue_signals(std::initializer_list<int> signals);

// Returns the next queued signal; nullopt if there is none. Never blocks.
std::optional<int> next_signal(const Descriptor& queue);

}  // namespace roll::io
