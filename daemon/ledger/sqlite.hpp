// The little of SQLite that the ledger uses, with errors as values.
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

// Refused for a full volume, Corrupt for a damaged file, Failed for the rest. The message names the
// file.
Error sqlite_error(sqlite3* database, int code);

// Its WAL stays as it is when it is closed: what a damaged one lost may still be read from it.
Result<Database> open_database(const std::filesystem::path& path);
// Whether closing it moves the WAL into the database, as SQLite does by itself.
Result<void> merge_wal_at_close(sqlite3* database, bool merge);
Result<void> execute(sqlite3* database, const std::string& sql);
Result<Statement> prepare(sqlite3* database, std::string_view sql);

// True: a row is there. False: done.
Result<bool> step(sqlite3_stmt* statement);
// The whole of a statement that gives no rows; it can be run again.
Result<void> step_once(sqlite3_stmt* statement);

void bind_value(sqlite3_stmt* statement, int index, std::int64_t value);
void bind_value(sqlite3_stmt* statement, int index,
                std::string_view text);  // text outlives the step
std::string column_text(sqlite3_stmt* statement, int index);

}  // namespace roll::ledger
