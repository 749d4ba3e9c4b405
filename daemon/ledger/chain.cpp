#include "daemon/ledger/chain.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"

namespace roll::ledger {
namespace {

// Returns whether `marked` was the newest row before the ledger was pruned. Pruning changes that
// row's hash, so that the mark matches no row afterwards.
Result<bool> was_pruned(sqlite3* database, const Mark& marked) {
    ROLL_TRY(const Statement query,
             prepare(database, "SELECT 1 FROM pruned WHERE seq = ? AND hash = ?"));
    bind_value(query.get(), 1, marked.seq);
    bind_value(query.get(), 2, static_cast<std::int64_t>(marked.hash));
    return step(query.get());
}

// Returns the error of a check that could not read the ledger. A full volume or a file that cannot
// be opened says nothing about the ledger, so these errors do not advise a restore.
tl::unexpected<Error> unreadable(const std::filesystem::path& path, const Error& error) {
    if (error.code == ErrorCode::Refused || error.code == ErrorCode::Unavailable)
        return tl::unexpected(error);
    return damaged(path, error.message);
}

}  // namespace

std::uint64_t chain(std::uint64_t before, const core::Row& row) {
    const std::string head =
        fmt::format("{} {} {} ", row.seq, row.at.time_since_epoch().count(), row.kind);
    return hash64(row.body, hash64(head, before));
}

core::Row row_of(sqlite3_stmt* statement) {
    return {.seq = sqlite3_column_int64(statement, 0),
            .at = Time{std::chrono::milliseconds{sqlite3_column_int64(statement, 1)}},
            .kind = column_text(statement, 2),
            .body = column_text(statement, 3)};
}

tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what) {
    const std::string directory = path.parent_path().string();
    return fail(ErrorCode::Corrupt, path.string() + " is damaged: " + what,
                fmt::format("to restore a backup: `rolld --dir {0} --restore BACKUP`; to start "
                            "with an empty queue: `rolld --dir {0} --start-over`. Both keep the "
                            "present ledger files and do not touch checkpoints or exports",
                            directory));
}

Result<void> check_pages(sqlite3* database, const std::filesystem::path& path) {
    const auto statement = prepare(database, "PRAGMA integrity_check(1)");
    if (!statement) return unreadable(path, statement.error());
    const auto row = step(statement->get());
    if (!row) return unreadable(path, row.error());
    const std::string verdict = column_text(statement->get(), 0);
    // Before the damage, SQLite writes a line with the name that it gives the database.
    if (verdict != "ok") return damaged(path, verdict.substr(verdict.rfind('\n') + 1));
    return {};
}

Result<Mark> check_chain(sqlite3* database, const std::filesystem::path& path,
                         const std::optional<Mark>& marked) {
    ROLL_TRY(const Statement all,
             prepare(database, "SELECT seq, at, kind, body, hash FROM events ORDER BY seq"));
    Mark head;
    bool mark_found = !marked || marked->seq == 0;
    for (;;) {
        const auto more = step(all.get());
        if (!more) return unreadable(path, more.error());
        if (!*more) break;
        const core::Row row = row_of(all.get());
        const auto stored = static_cast<std::uint64_t>(sqlite3_column_int64(all.get(), 4));
        head = {row.seq, chain(head.hash, row)};
        if (head.hash != stored)
            return damaged(path, fmt::format("event {} was changed after it was written, or does "
                                             "not follow the event before it",
                                             row.seq));
        if (marked && head == *marked) mark_found = true;
    }
    if (!mark_found) {
        ROLL_TRY(mark_found, was_pruned(database, *marked));
    }
    if (mark_found) return head;
    return damaged(path, fmt::format("it ends at event {}, but event {} had been committed (the "
                                     "later events are missing from the WAL {}-wal)",
                                     head.seq, marked->seq, path.string()));
}

}  // namespace roll::ledger
