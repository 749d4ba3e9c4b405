// Job numbers are never reused, not even numbers forgotten by a restore, because they name
// directories.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roll::ledger {

// Returns the first number that no job of the ledger of `state` can have had, even if the ledger is
// damaged. Counts the readable jobs, and each later event up to the mark as one possible
// submission. Returns 1 if there are neither jobs nor a mark.
std::uint64_t unused_job(const std::filesystem::path& state);

}  // namespace roll::ledger
