// The guard of an attempt: the parent process of all the attempt's programs. roll-worker starts its
// own program file as a guard.
//
// A guard prepares the files and starts the programs in one process group. The guard kills all its
// descendants, even in other sessions, in four cases: roll-worker orders the kill; the socket is
// closed because roll-worker has ended; the leash (a shared deadline) expires; all programs have
// ended. Once no descendant is left, the guard reports "gone" and can serve another attempt.
//
//   descriptor 0  a Unix socket. From roll-worker: a GuardPlan as one line of JSON, with the
//                 descriptors of each program (its stdin, its report pipe); then "term", "stacks"
//                 and "kill". To roll-worker: "exit PROGRAM code|signal N", "leash",
//                 "failed {verdict}", "matched N...", "usage CPU-MS MEMORY-PEAK WALL-MS READ
//                 WRITTEN" in bytes and ms, and "gone" as the last line of an attempt.
//                 The guard sends several lines at once if it can, so that they wake roll-worker
//                 only once.
//   descriptor 3  the leash (leash.hpp)
//   descriptor 4  the reaper's pipe (reaper.hpp)
#pragma once

namespace roll::agent {

constexpr int kGuardLeash = 3;
constexpr int kGuardReaper = 4;

// Runs this process as a guard. Returns its exit status.
int run_guard();

}  // namespace roll::agent
