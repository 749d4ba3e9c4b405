// Copies of a ledger: made while a rolld serves it, put back while none does.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::ledger {

// Copies the ledger of `state` as it is at one moment to the new directory `target` (ledger.db and
// ledger.mark), checked and durable when it appears. The number of its newest event. Refused:
// `target` exists. Corrupt: the copy shows damage; it is removed again.
Result<std::int64_t> back_up(const std::filesystem::path& state,
                             const std::filesystem::path& target);

// Puts a backup in the place of the ledger of `state`, and what was there into
// `state`/ledger-before-MILLISECONDS. The incarnation is raised to `incarnation` if that is more
// than the backup's next, so that tokens which were given out after the backup are stale, and
// nothing is started for a while (leases rule 19). Refused: a rolld serves `state`. Corrupt: the
// backup is damaged; then nothing was changed.
Result<std::int64_t> restore(const std::filesystem::path& backup,
                             const std::filesystem::path& state, std::uint64_t incarnation,
                             Time now);

}  // namespace roll::ledger
