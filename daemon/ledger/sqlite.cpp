#include "daemon/ledger/sqlite.hpp"

#include <cerrno>
#include <cstring>

namespace roll::ledger {
namespace {

constexpr const char* kMayNotUse =
    "the user of rolld must own the files ledger.* and be able to write them; see `ls -l` of "
    "their directory";

}  // namespace

Error sqlite_error(sqlite3* database, int code) {
    const char* const file = sqlite3_db_filename(database, "main");
    return sqlite_error(database, code, file == nullptr ? "ledger" : file);
}

Error sqlite_error(sqlite3* database, int code, const std::string& name) {
    const int number = sqlite3_system_errno(database);
    const bool full = (code & 0xff) == SQLITE_FULL ||
                      ((code & 0xff) == SQLITE_IOERR && (number == ENOSPC || number == EDQUOT));
    if (full) {
        return {ErrorCode::Refused, "the volume of " + name + " is full",
                "free some space on that volume; running jobs continue, and the queue then works "
                "again by itself"};
    }
    if ((code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_PERM) {
        // A missing permission does not go away by itself, so the file is refused. Other causes,
        // such as too many open files, may go away.
        const bool denied = number == 0 || number == EACCES || number == EPERM || number == EROFS;
        return {denied ? ErrorCode::Refused : ErrorCode::Unavailable,
                "cannot open " + name +
                    " or its WAL: " + (number == 0 ? sqlite3_errstr(code) : std::strerror(number)),
                denied ? kMayNotUse : "remove this cause, then start rolld again"};
    }
    const bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    return {damaged ? ErrorCode::Corrupt : ErrorCode::Failed,
            name + ": " + sqlite3_errmsg(database),
            damaged ? "to restore a backup: `rolld --dir DIR --restore BACKUP`" : ""};
}

Result<void> check_kind(const std::filesystem::path& path) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
    return fail(ErrorCode::Refused,
                path.string() + (std::filesystem::is_directory(status) ? " is a directory"
                                                                       : " is not a regular file"),
                "rolld keeps its ledger in a file of this name: move what is there away, or set "
                "--dir to another directory");
}

Result<Database> open_database(const std::filesystem::path& path) {
    ROLL_TRY_VOID(check_kind(path));
    sqlite3* raw = nullptr;
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
    Database database(raw);
    if (code != SQLITE_OK) {
        return tl::unexpected(sqlite_error(raw, code, path.string()));
    }
    // SQLite opens a file that may not be written for reading only, and fails at the first commit.
    if (sqlite3_db_readonly(raw, "main") == 1)
        return fail(ErrorCode::Refused, "cannot write " + path.string(), kMayNotUse);
    sqlite3_busy_timeout(raw, 5000);
    ROLL_TRY_VOID(merge_wal_at_close(raw, false));
    return database;
}

Result<void> merge_wal_at_close(sqlite3* database, bool merge) {
    const int code =
        sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, merge ? 0 : 1, nullptr);
    if (code != SQLITE_OK) return tl::unexpected(sqlite_error(database, code));
    return {};
}

Result<void> execute(sqlite3* database, const std::string& sql) {
    const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return tl::unexpected(sqlite_error(database, code));
    return {};
}

Result<Statement> prepare(sqlite3* database, std::string_view sql) {
    sqlite3_stmt* raw = nullptr;
    const int code =
        sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
    if (code != SQLITE_OK) return tl::unexpected(sqlite_error(database, code));
    return Statement(raw);
}

Result<bool> step(sqlite3_stmt* statement) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return tl::unexpected(sqlite_error(sqlite3_db_handle(statement), code));
}

Result<void> step_once(sqlite3_stmt* statement) {
    const auto done = step(statement);
    sqlite3_reset(statement);
    if (!done) return tl::unexpected(done.error());
    return {};
}

void bind_value(sqlite3_stmt* statement, int index, std::int64_t value) {
    sqlite3_bind_int64(statement, index, value);
}

void bind_value(sqlite3_stmt* statement, int index, std::string_view text) {
    sqlite3_bind_text(statement, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
}

std::string column_text(sqlite3_stmt* statement, int index) {
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement, index));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, index));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
}

}  // namespace roll::ledger
