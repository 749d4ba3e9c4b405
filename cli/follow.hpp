// Watching a job until it is over.
#pragma once

#include <cstdint>

#include "cli/context.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {

// Returns the job once it is over; nothing is printed.
Result<Json> await_job(Daemon& daemon, std::uint64_t id);

// The same, printing how it goes: one line that is overwritten on a terminal, else a line when the
// state or the progress changed.
Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id);

}  // namespace roll::cli
