// Versions of the database's format. The numbered SQL files in schemas/ledger are applied in order
// and never reverted.
#pragma once

#include <string>

#include <sqlite3.h>

#include "common/error.hpp"

namespace roll::ledger {

// Returns the format version of the database; 0 for an empty file.
Result<int> format_of(sqlite3* database);

// Upgrades the database to this program's format (PRAGMA user_version), each step in one
// transaction. Fails with Refused if the database's format is newer.
Result<void> migrate(sqlite3* database, const std::string& name);

}  // namespace roll::ledger
