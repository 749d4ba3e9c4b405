// Signals as readable descriptors: no handlers, nothing happens behind the program's back.
#pragma once

#include <initializer_list>
#include <optional>

#include "common/io/descriptor.hpp"

namespace roll::io {

// Blocks these signals in this thread, and in those that it makes later, and queues them instead.
// SIGPIPE is ignored besides. Call it before any thread is started.
Descriptor queue_signals(std::initializer_list<int> signals);

// The next queued signal; none if there is none. Never blocks.
std::optional<int> next_signal(const Descriptor& queue);

}  // namespace roll::io
