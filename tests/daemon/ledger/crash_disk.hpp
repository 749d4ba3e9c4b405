// A VFS of SQLite over the real one, which can crash at any write or sync.
#pragma once

#include <functional>

namespace roll::ledger {

enum class Crash {
    Kill,       // the process ends before the operation; earlier writes stay
    Torn,       // half of the write is done, then the process ends
    PowerLoss,  // like Kill, but writes and deletions that were not synced are undone
    Error,      // the operation and all later ones fail with EIO
};

// Runs `work` in a child process, in which operation number `at` (from 0) crashes as `crash` says.
// Returns the number of operations; if it is at most `at`, `work` ran to its end.
int run_with_crash(Crash crash, int at, const std::function<void()>& work);

}  // namespace roll::ledger
