// The format of the database: numbered SQL files of schemas/ledger, applied in order, never undone.
#pragma once

#include <string>

#include <sqlite3.h>

#include "common/error.hpp"

namespace roll::ledger {

// The database's format; 0 for an empty file.
Result<int> format_of(sqlite3* database);

// Brings the database to this program's version (PRAGMA user_version), each step in one
// transaction. Refused if it is of a newer one.
Result<void> migrate(sqlite3* database, const std::string& name);

}  // namespace roll::ledger
