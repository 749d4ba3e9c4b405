// The client's end of a terminal in a job. Until the program ends, copies standard input to the
// program, and the program's output to standard output and standard error.
//
// On a terminal, all keys go to the program. Enter, ~ and . end the session, as in ssh.
#pragma once

#include <cstdint>

#include "cli/client/daemon.hpp"
#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::cli {

// Blocks the signals that a session handles, and returns a descriptor from which the session reads
// them (io::queue_signals()). Call this function before any thread is started.
io::Descriptor queue_session_signals();

// Runs the session. Returns the exit status of the program; 128+N if signal N ended the program.
// Fails with Unavailable if rolld does not answer any more, and with Failed if the program cannot
// be run or was ended with its job. `signals` is from queue_session_signals(). `raw`: standard
// input is a terminal whose keys go to the program.
Result<int> run_session(Daemon& daemon, std::uint64_t terminal, const io::Descriptor& signals,
                        bool raw);

}  // namespace roll::cli
