// The hash chain over the ledger's rows, and the walk along it.
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

// XXH3-64 of (seq, at, kind, body), seeded with the hash of the row before.
std::uint64_t chain(std::uint64_t before, const core::Row& row);

// seq, at, kind, body: the first columns of a SELECT.
core::Row row_of(sqlite3_stmt* statement);

// Error Corrupt: the file, what is wrong with it, and the way back.
tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what);

// Walks every row from the first: each hash follows from the one before, and `marked`, if given, is
// one of them or was the newest before a pruning. The newest row.
Result<Mark> check_chain(sqlite3* database, const std::filesystem::path& path,
                         const std::optional<Mark>& marked);

// PRAGMA integrity_check.
Result<void> check_pages(sqlite3* database, const std::filesystem::path& path);

}  // namespace roll::ledger
