// Copies of a ledger: made while a rolld serves it, put back while none does.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::ledger {

// Copies the ledger of `state` as it is at one moment to the new directory `target` (ledger.db and
// ledger.mark), checked and durable when it appears. The number of its newest event. Refused:
// `target` exists. Corrupt: the ledger or the copy shows damage; no copy is left.
Result<std::int64_t> back_up(const std::filesystem::path& state,
                             const std::filesystem::path& target);

struct Restored {
    std::int64_t newest = 0;       // event
    std::uint64_t next_job = 1;    // number
    std::filesystem::path before;  // what was there: `state`/ledger-before-MILLISECONDS
};

// Puts a backup, or with an empty path an empty ledger, in the place of the ledger of `state`. The
// incarnation is raised to `incarnation` if that is more than the backup's next, so that tokens
// which were given out after the backup are stale, and nothing is started for a while (leases rule
// 19). Jobs that it does not know keep their numbers and so their directories to themselves.
// NotFound: there is no backup. Refused: a rolld serves `state`. Corrupt: the backup is damaged;
// then nothing was changed.
Result<Restored> restore(const std::filesystem::path& backup, const std::filesystem::path& state,
                         std::uint64_t incarnation, Time now);

}  // namespace roll::ledger
