// A program that roll-worker starts instead of roll-rank. It does what the job's document says.
//
//   {"rank": ["ready", "stage 10", "recorded 10", "exit 0"], "rank-1": [...]}
//
// ready, progress, junk, fail TEXT: reports that. stage STEP: writes a staged checkpoint and
// reports it. recorded STEP, stop: waits for that line. child: leaves a grandchild in its own
// session. deaf: ignores SIGTERM from then on. touch FILE: creates a file. exit CODE, signal
// NUMBER: ends. hang: never ends.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

// Runs the dummy if `arguments` are those of a program that roll-worker starts, and returns the
// dummy's exit status. Otherwise returns -1.
int run_as_dummy(const std::vector<std::string>& arguments);

}  // namespace roll::agent
