// Finds a job number that was never used. Job numbers name directories. A number is never reused,
// even if a restore has forgotten its job.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roll::ledger {

// Returns the first number that no job of the ledger in `state` can have had, even if the ledger is
// damaged. If the ledger is damaged, assumes the worst: each event from the last readable row up to
// the mark has submitted one job. Returns 1 if there are neither jobs nor a mark.
std::uint64_t unused_job(const std::filesystem::path& state);

}  // namespace roll::ledger
