// Finds a job number that was never used. Job numbers name directories. They are never reused, even
// if a restore has forgotten their jobs.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roll::ledger {

// Returns the first number that no job of the ledger in `state` can have had, even if the ledger is
// damaged. Counts the jobs that can be read, and every later event up to the mark as one
// submission. Returns 1 if there are neither jobs nor a mark.
std::uint64_t unused_job(const std::filesystem::path& state);

}  // namespace roll::ledger
