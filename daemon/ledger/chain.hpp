// The hash chain over the ledger's rows, and its check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "daemon/core/row.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {

// Returns XXH3-64 of (seq, at, kind, body), seeded with the hash of the previous row.
std::uint64_t chain(std::uint64_t before, const core::Row& row);

// Returns the row in the first columns of a SELECT: seq, at, kind, body.
core::Row row_of(sqlite3_stmt* statement);

// Returns a Corrupt error that says the file, the damage, and how to recover.
tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what);

// Checks every row's hash from the first. `marked`, if given, must be one of the rows or the
// newest row before a pruning. Returns the newest row.
Result<Mark> check_chain(sqlite3* database, const std::filesystem::path& path,
                         const std::optional<Mark>& marked);

// Runs PRAGMA integrity_check.
Result<void> check_pages(sqlite3* database, const std::filesystem::path& path);

}  // namespace roll::ledger
