// The part of SQLite's interface that the ledger uses, with errors as values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "common/error.hpp"

namespace roll::ledger {

struct CloseDatabase {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// Returns Refused for a full volume, Corrupt for a damaged file, else Failed. The message names
// the file.
Error sqlite_error(sqlite3* database, int code);

// Opens a database. Closing it keeps its WAL, because rows lost by a damaged database may still be
// readable there.
Result<Database> open_database(const std::filesystem::path& path);
// Sets whether closing merges the WAL into the database, SQLite's default.
Result<void> merge_wal_at_close(sqlite3* database, bool merge);
Result<void> execute(sqlite3* database, const std::string& sql);
Result<Statement> prepare(sqlite3* database, std::string_view sql);

// Returns true if there is a row, false at the end.
Result<bool> step(sqlite3_stmt* statement);
// Runs a statement that returns no rows, and resets it for reuse.
Result<void> step_once(sqlite3_stmt* statement);

void bind_value(sqlite3_stmt* statement, int index, std::int64_t value);
void bind_value(sqlite3_stmt* statement, int index,
                std::string_view text);  // `text` must outlive the step
std::string column_text(sqlite3_stmt* statement, int index);

}  // namespace roll::ledger
