// Backs up a ledger while rolld serves it, and restores it while none does.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::ledger {

// Copies the ledger of `state` at one moment to the new directory `target` (ledger.db and
// ledger.mark). The copy is checked and durable when `target` appears. Returns the number of its
// newest event. Fails with Refused if `target` exists, with Corrupt if the ledger or the copy is
// damaged; then no copy is left.
Result<std::int64_t> back_up(const std::filesystem::path& state,
                             const std::filesystem::path& target);

struct Restored {
    std::int64_t newest = 0;       // number of the newest event
    std::uint64_t next_job = 1;    // number of the next job
    std::filesystem::path before;  // previous ledger: `state`/ledger-before-MILLISECONDS
};

// Replaces the ledger of `state` by a backup, or by an empty ledger if `backup` is empty. Raises
// the incarnation to `incarnation` if that exceeds the backup's next one, so that tokens issued
// after the backup are stale, and nothing is started for a while (leases rule 19). Job numbers
// issued after the backup are not reused, so their directories are not either. Fails with
// NotFound without a backup, with Refused if a rolld serves `state`, with Corrupt if the backup
// is damaged; then nothing was changed.
Result<Restored> restore(const std::filesystem::path& backup, const std::filesystem::path& state,
                         std::uint64_t incarnation, Time now);

}  // namespace roll::ledger
