// The disk under SQLite, with a crash at any of its writes and syncs: a VFS over the real one.
#pragma once

#include <functional>

namespace roll::ledger {

enum class Crash {
    Kill,       // the process ends before the operation; what was written stays
    Torn,       // half of a write is done, then the process ends
    PowerLoss,  // all that was written since each file's last sync is gone, too, and files whose
                // deletion was not synced are back
    Error,      // the operation fails (EIO), and so does every later one
};

// Runs `work` in a child process in which the `at`th operation (from 0) ends so. How many
// operations it made; less than `at` + 1: it came to its end.
int run_with_crash(Crash crash, int at, const std::function<void()>& work);

}  // namespace roll::ledger
