// Backs up a ledger while a rolld serves it, and restores a ledger that no rolld serves.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::ledger {

// Copies the ledger of the directory `state`, as of one moment, to the new directory `target`
// (ledger.db and ledger.mark). The copy is checked and durable before `target` appears. Returns the
// number of the newest event. Fails with Refused if `target` exists, and with Corrupt if the ledger
// or the copy is damaged. After a failure, no copy is left. `state` may be on a read-only volume.
Result<std::int64_t> back_up(const std::filesystem::path& state,
                             const std::filesystem::path& target);

struct Restored {
    std::int64_t newest = 0;     // number of the newest event of the restored ledger
    std::uint64_t next_job = 1;  // number that the next job gets
    // Path of the previous ledger after the restore: `state`/ledger-before-MILLISECONDS.
    std::filesystem::path before;
};

// Replaces the ledger of the directory `state` by a backup, or by an empty ledger if `backup` is
// empty.
//
// The restored ledger gets a new incarnation: the larger of `incarnation` and the backup's
// incarnation + 1. The tokens of attempts that were started after the backup are therefore stale.
// After a restore, no job is started for a while (leases rule 19). Job numbers name directories.
// Numbers that were assigned after the backup are therefore not assigned again.
//
// Fails with NotFound if there is no backup, with Refused if a rolld serves `state`, and with
// Corrupt if the backup is damaged. After such an error, nothing has changed.
Result<Restored> restore(const std::filesystem::path& backup, const std::filesystem::path& state,
                         std::uint64_t incarnation, Time now);

}  // namespace roll::ledger
