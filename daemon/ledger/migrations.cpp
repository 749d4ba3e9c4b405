#include "daemon/ledger/migrations.hpp"

#include <iterator>

#include <fmt/format.h>

#include "daemon/ledger/sqlite.hpp"
#include "generated/ledger_migrations.hpp"

namespace roll::ledger {

Result<int> format_of(sqlite3* database) {
    ROLL_TRY(const Statement query, prepare(database, "PRAGMA user_version"));
    ROLL_TRY(const bool found, step(query.get()));
    return found ? sqlite3_column_int(query.get(), 0) : 0;
}

Result<void> migrate(sqlite3* database, const std::string& name) {
    ROLL_TRY(int version, format_of(database));
    const int known = static_cast<int>(std::size(kMigrations));
    if (version > known) {
        return fail(ErrorCode::Refused,
                    fmt::format("{} has format {}, but this rolld supports formats only up to {}",
                                name, version, known),
                    "start the newer rolld, or restore a backup of the older format");
    }
    for (; version < known; ++version) {
        ROLL_TRY_VOID(
            execute(database, fmt::format("BEGIN IMMEDIATE;{};PRAGMA user_version = {};COMMIT",
                                          kMigrations[version], version + 1)));
    }
    return {};
}

}  // namespace roll::ledger
