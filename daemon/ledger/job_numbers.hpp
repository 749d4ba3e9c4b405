// Numbers of jobs are given once, those of jobs that a restore forgets included: they name
// directories.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roll::ledger {

// The first number that no job of the ledger of `state` has had, be that damaged: what can be read
// of it is, and each event behind that, up to the mark, may have been a submission. 1 if neither
// tells of any.
std::uint64_t unused_job(const std::filesystem::path& state);

}  // namespace roll::ledger
