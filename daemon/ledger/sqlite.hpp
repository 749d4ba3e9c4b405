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

// Returns the error for a result code of SQLite: Refused for a full volume, Corrupt for a damaged
// file, else Failed. The message names the file.
Error sqlite_error(sqlite3* database, int code);
// Returns the error for a result code of SQLite if the database could not be opened. SQLite then
// does not know the name of the file, so the caller passes `name`.
Error sqlite_error(sqlite3* database, int code, const std::string& name);

// Checks that the path is a regular file or does not exist. Fails with Refused.
Result<void> check_kind(const std::filesystem::path& path);
// Opens a database. Closing it does not delete its WAL, because the WAL may still have rows that a
// damaged database has lost.
Result<Database> open_database(const std::filesystem::path& path);
// Sets what happens when the database is closed. If `merge` is true (SQLite's default), the WAL is
// merged into the database and deleted. If `merge` is false, the WAL is kept.
Result<void> merge_wal_at_close(sqlite3* database, bool merge);
Result<void> execute(sqlite3* database, const std::string& sql);
Result<Statement> prepare(sqlite3* database, std::string_view sql);

// Executes the next step of a statement. Returns true if there is a row, false at the end.
Result<bool> step(sqlite3_stmt* statement);
// Executes a statement that returns no rows, and resets it for reuse.
Result<void> step_once(sqlite3_stmt* statement);

void bind_value(sqlite3_stmt* statement, int index, std::int64_t value);
void bind_value(sqlite3_stmt* statement, int index,
                std::string_view text);  // `text` must stay valid until the statement is executed
std::string column_text(sqlite3_stmt* statement, int index);

}  // namespace roll::ledger
