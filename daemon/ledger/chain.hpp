// Computes and checks the hash chain over the ledger's rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "daemon/core/state/row.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {

// Returns the row's hash: XXH3-64 of (seq, at, kind, body), seeded with the hash of the previous
// row.
std::uint64_t chain(std::uint64_t before, const core::Row& row);

// Returns the current row of a SELECT whose first columns are seq, at, kind and body.
core::Row row_of(sqlite3_stmt* statement);

// Returns a Corrupt error that names the file and the damage, and says how to recover.
tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what);

// Checks the hash of every row, from the first, and returns the newest row. Fails with Corrupt if a
// hash is wrong. If `marked` is given, it must be a row of the ledger, or have been the newest row
// before the ledger was pruned. Otherwise, also fails with Corrupt.
Result<Mark> check_chain(sqlite3* database, const std::filesystem::path& path,
                         const std::optional<Mark>& marked);

// Runs PRAGMA integrity_check. Fails with Corrupt if it finds damage.
Result<void> check_pages(sqlite3* database, const std::filesystem::path& path);

}  // namespace roll::ledger
