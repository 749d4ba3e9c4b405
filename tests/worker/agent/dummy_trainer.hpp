// A program that a worker starts in place of roll-rank: it does what the job's document says.
//
//   {"rank": ["ready", "stage 10", "recorded 10", "exit 0"], "rank-1": [...]}
//
// ready, progress, junk, fail TEXT: says so. stage STEP: writes a staged checkpoint and says so.
// recorded STEP, stop: waits for that line. child: leaves a grandchild in a session of its own.
// deaf: SIGTERM is ignored from here on. touch FILE. exit CODE, signal NUMBER, hang: ends, or never
// does.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

// If these arguments are those of a program that roll-worker starts: its exit status. Else -1.
int run_as_dummy(const std::vector<std::string>& arguments);

}  // namespace roll::agent
