#include "daemon/ledger/ledger.hpp"

#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "daemon/core/apply/apply.hpp"
#include "daemon/ledger/chain.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/lock.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/prune.hpp"
#include "daemon/ledger/snapshot.hpp"
#include "daemon/ledger/sqlite.hpp"
#include "generated/ledger_migrations.hpp"

namespace roll::ledger {
namespace {

// Maximum size of a page of events in bytes. The page must fit into a reply.
constexpr std::size_t kReadBytesMax = 4u << 20;
// Pruning must remove at least 1 / kPruneShare of all jobs, because it rehashes every row.
constexpr std::size_t kPruneShare = 10;
// A new snapshot is written after N further events. N is the larger of kSnapshotEvery and the
// number of jobs / kSnapshotShare. This choice balances two costs: a snapshot takes time
// proportional to State, and a start of rolld takes time proportional to the events since the
// snapshot.
constexpr std::int64_t kSnapshotEvery = 20'000;
constexpr std::int64_t kSnapshotShare = 4;

// Makes the kernel read the whole file in order. The checks of open() read pages in the order of
// SQLite's trees. With a cold cache, they would wait for the disk at each page. Requires that
// SQLite has not opened the file, because close() here would drop SQLite's locks.
void read_ahead(const std::filesystem::path& path) {
    // maximum number of bytes that the kernel reads ahead per request
    constexpr off_t kAtOnce = 128 << 10;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const off_t size = ::lseek(fd, 0, SEEK_END);
    for (off_t from = 0; from < size; from += kAtOnce)
        ::posix_fadvise(fd, from, kAtOnce, POSIX_FADV_WILLNEED);
    ::close(fd);
}

// Returns the format version of the database; 0 for an empty file.
Result<int> format_of(sqlite3* database) {
    ROLL_TRY(const Statement query, prepare(database, "PRAGMA user_version"));
    ROLL_TRY(const bool found, step(query.get()));
    return found ? sqlite3_column_int(query.get(), 0) : 0;
}

// Upgrades the database to this program's format (PRAGMA user_version), each step in one
// transaction. Fails with Refused if the database's format is newer. The numbered SQL files in
// schemas/ledger are applied in order and never reverted.
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

}  // namespace

struct Ledger::Impl {
    std::filesystem::path path;
    Lock lock;
    MarkFile mark;
    Database database;
    Statement insert;
    Statement begin;
    Statement commit;
    Mark head{};                    // newest row
    std::int64_t snapshot_seq = 0;  // number of the newest event in the newest snapshot; 0: none
    SnapshotWriter snapshots{};

    std::filesystem::path snapshot_path() const { return path.parent_path() / "ledger.snapshot"; }
    Result<void> insert_row(const Row& row, std::optional<JobId> job, std::uint64_t hash);
    Result<Mark> insert_rows(std::span<const core::Event> events, Time at, Mark next);
    Result<Mark> insert_all(std::span<const core::Event> events, Time at);
    Result<Mark> rehash() const;
    Result<void> drop(const std::set<JobId>& jobs, const core::State& state, Time now);
    void roll_back() const;
    std::optional<Snapshot> snapshot() const;
    Result<core::State> fold(core::State state, std::int64_t since) const;
};

void Ledger::Impl::roll_back() const {
    if (sqlite3_get_autocommit(database.get()) == 0)
        sqlite3_exec(database.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

std::int64_t Ledger::newest() const { return impl_->head.seq; }

// Asks for the sizes without opening the files, because closing them would drop SQLite's locks.
Space Ledger::space() const {
    const auto size_of = [](const std::filesystem::path& path) {
        std::error_code error;
        const std::uintmax_t size = std::filesystem::file_size(path, error);
        return error ? std::nullopt : std::optional(size);
    };
    std::error_code error;
    const std::filesystem::space_info volume =
        std::filesystem::space(impl_->path.parent_path(), error);
    return {size_of(impl_->path), size_of(impl_->path.string() + "-wal"),
            error ? std::nullopt : std::optional(volume.available)};
}

Result<Ledger> Ledger::open(const std::filesystem::path& directory) {
    ROLL_TRY_VOID(make_directories(directory));
    const std::filesystem::path path = directory / "ledger.db";
    ROLL_TRY(Lock lock, Lock::take(directory));
    ROLL_TRY_VOID(check_kind(path));
    ROLL_TRY(MarkFile mark, MarkFile::open(directory / "ledger.mark"));
    read_ahead(path);
    ROLL_TRY(Database database, open_database(path));
    if (const auto checked = check_pages(database.get(), path); !checked)
        return tl::unexpected(checked.error());
    // Switch to WAL with synchronous=EXTRA. The switch itself uses a rollback journal and then
    // deletes it. Only EXTRA syncs this deletion. Without the sync, a power loss could bring the
    // journal back. SQLite would then restore the empty file, although the WAL already has rows.
    ROLL_TRY_VOID(execute(database.get(), "PRAGMA synchronous=EXTRA"));
    ROLL_TRY_VOID(execute(database.get(), "PRAGMA journal_mode=WAL"));
    ROLL_TRY_VOID(execute(database.get(), "PRAGMA synchronous=FULL"));
    ROLL_TRY(const int format, format_of(database.get()));
    if (const auto marked = mark.read(); format == 0 && marked && marked->seq > 0)
        return damaged(path,
                       fmt::format("it is empty, but event {} had been committed", marked->seq));
    ROLL_TRY_VOID(migrate(database.get(), path.string()));
    ROLL_TRY(Statement insert, prepare(database.get(),
                                       "INSERT INTO events (seq, at, kind, job, body, hash) "
                                       "VALUES (?, ?, ?, ?, ?, ?)"));
    ROLL_TRY(Statement begin, prepare(database.get(), "BEGIN IMMEDIATE"));
    ROLL_TRY(Statement commit, prepare(database.get(), "COMMIT"));
    auto impl =
        std::make_unique<Impl>(Impl{path, std::move(lock), std::move(mark), std::move(database),
                                    std::move(insert), std::move(begin), std::move(commit)});
    ROLL_TRY(impl->head, check_chain(impl->database.get(), path, impl->mark.read()));
    ROLL_TRY_VOID(merge_wal_at_close(impl->database.get(), true));
    // A killed rolld may have written the newest rows without syncing them, so that a power loss
    // could still remove them. Mark the newest row only after the checkpoint has synced the WAL.
    if (execute(impl->database.get(), "PRAGMA wal_checkpoint")) impl->mark.write(impl->head);
    return Ledger(std::move(impl));
}

Result<void> Ledger::Impl::insert_row(const Row& row, std::optional<JobId> job,
                                      std::uint64_t hash) {
    sqlite3_stmt* const s = insert.get();
    bind_value(s, 1, row.seq);
    bind_value(s, 2, static_cast<std::int64_t>(row.at.time_since_epoch().count()));
    bind_value(s, 3, row.kind);
    if (job) bind_value(s, 4, static_cast<std::int64_t>(job->value));
    if (!job) sqlite3_bind_null(s, 4);
    bind_value(s, 5, row.body);
    bind_value(s, 6, static_cast<std::int64_t>(hash));
    return step_once(s);
}

Result<Mark> Ledger::Impl::insert_rows(std::span<const core::Event> events, Time at, Mark next) {
    for (const core::Event& event : events) {
        const Row row{next.seq + 1, at, kind_of(event), body_of(event)};
        next = {row.seq, chain(next.hash, row)};
        ROLL_TRY_VOID(insert_row(row, job_of(event), next.hash));
    }
    return next;
}

Result<Mark> Ledger::Impl::insert_all(std::span<const core::Event> events, Time at) {
    ROLL_TRY_VOID(step_once(begin.get()));
    ROLL_TRY(const Mark next, insert_rows(events, at, head));
    ROLL_TRY_VOID(step_once(commit.get()));
    return next;
}

Result<void> Ledger::append(std::span<const core::Event> events, Time at) {
    auto next = impl_->insert_all(events, at);
    if (!next) {
        impl_->roll_back();
        return tl::unexpected(next.error());
    }
    impl_->head = *next;
    impl_->mark.write(*next);
    return {};
}

// Returns the snapshot if the row at which it was taken is in the ledger. check_chain() has already
// verified all hashes.
std::optional<Snapshot> Ledger::Impl::snapshot() const {
    auto found = read_snapshot(snapshot_path());
    if (!found) {
        if (found.error().code != ErrorCode::NotFound)
            spdlog::warn("{}; rolld replays every event instead", found.error().message);
        return std::nullopt;
    }
    const auto query = prepare(database.get(), "SELECT 1 FROM events WHERE seq = ? AND hash = ?");
    if (!query) return std::nullopt;
    bind_value(query->get(), 1, found->at.seq);
    bind_value(query->get(), 2, static_cast<std::int64_t>(found->at.hash));
    if (step(query->get()).value_or(false)) return *std::move(found);
    spdlog::warn("{} belongs to another ledger; rolld replays every event instead",
                 snapshot_path().string());
    return std::nullopt;
}

Result<core::State> Ledger::Impl::fold(core::State state, std::int64_t since) const {
    ROLL_TRY(const Statement all, prepare(database.get(),
                                          "SELECT seq, at, kind, body, job FROM events "
                                          "WHERE seq > ? ORDER BY seq"));
    bind_value(all.get(), 1, since);
    for (;;) {
        ROLL_TRY(const bool more, step(all.get()));
        if (!more) return state;
        const Row row = row_of(all.get());
        const auto event = event_from(row.kind, row.body);
        if (!event) return damaged(path, event.error().message);
        // The hash chain covers the event, but not the column `job`, so check the column against
        // the event.
        const JobId filed{static_cast<std::uint64_t>(sqlite3_column_int64(all.get(), 4))};
        if (job_of(*event).value_or(JobId{}) != filed)
            return damaged(
                path, fmt::format("event {} is stored under job {}, but belongs to another job",
                                  row.seq, filed.value));
        core::apply(state, *event);
    }
}

Result<core::State> Ledger::fold() const { return impl_->fold({}, 0); }

Result<core::State> Ledger::load() const {
    auto snapshot = impl_->snapshot();
    impl_->snapshot_seq = snapshot ? snapshot->at.seq : 0;
    if (!snapshot) return fold();
    return impl_->fold(std::move(snapshot->state), impl_->snapshot_seq);
}

void Ledger::keep_snapshot(const core::State& state, bool now) {
    Impl& impl = *impl_;
    const std::int64_t since = impl.head.seq - impl.snapshot_seq;
    if (now) {
        impl.snapshots = SnapshotWriter();  // end a snapshot that is being written
        if (since > 0) (void)write_snapshot(impl.snapshot_path(), impl.head, state);
        return;
    }
    const auto many = static_cast<std::int64_t>(state.jobs.size()) / kSnapshotShare;
    if (since < std::max(kSnapshotEvery, many) || impl.snapshots.busy()) return;
    if (impl.snapshots.start(impl.snapshot_path(), impl.head, state))
        impl.snapshot_seq = impl.head.seq;
}

// Recomputes the hash of every row, from the first remaining row.
Result<Mark> Ledger::Impl::rehash() const {
    ROLL_TRY(const Statement all,
             prepare(database.get(), "SELECT seq, at, kind, body FROM events ORDER BY seq"));
    ROLL_TRY(const Statement set,
             prepare(database.get(), "UPDATE events SET hash = ? WHERE seq = ?"));
    Mark next;
    for (;;) {
        ROLL_TRY(const bool more, step(all.get()));
        if (!more) return next;
        const Row row = row_of(all.get());
        next = {row.seq, chain(next.hash, row)};
        bind_value(set.get(), 1, static_cast<std::int64_t>(next.hash));
        bind_value(set.get(), 2, row.seq);
        ROLL_TRY_VOID(step(set.get()));
        sqlite3_reset(set.get());
    }
}

Result<void> Ledger::Impl::drop(const std::set<JobId>& jobs, const core::State& state, Time now) {
    ROLL_TRY_VOID(execute(database.get(), "BEGIN IMMEDIATE"));
    ROLL_TRY(const Statement note,
             prepare(database.get(), "INSERT INTO pruned (seq, hash, at) VALUES (?, ?, ?)"));
    bind_value(note.get(), 1, head.seq);
    bind_value(note.get(), 2, static_cast<std::int64_t>(head.hash));
    bind_value(note.get(), 3, static_cast<std::int64_t>(now.time_since_epoch().count()));
    ROLL_TRY_VOID(step(note.get()));
    ROLL_TRY(const Statement remove, prepare(database.get(), "DELETE FROM events WHERE job = ?"));
    for (const JobId job : jobs) {
        bind_value(remove.get(), 1, static_cast<std::int64_t>(job.value));
        ROLL_TRY_VOID(step(remove.get()));
        sqlite3_reset(remove.get());
    }
    // Keep the number of the newest event, because the numbers of removed events are not used
    // again.
    ROLL_TRY(Mark next, rehash());
    next.seq = head.seq;
    ROLL_TRY(next, insert_rows(carried_uses(state), now, next));
    ROLL_TRY_VOID(execute(database.get(), "COMMIT"));
    head = next;
    mark.write(head);
    std::error_code ignored;
    // remove the snapshot, because it belongs to the old hash chain
    std::filesystem::remove(snapshot_path(), ignored);
    return {};
}

Result<std::size_t> Ledger::prune(const core::State& state, Time cutoff, Time now) {
    const std::set<JobId> jobs = forgettable(state, cutoff);
    if (jobs.size() * kPruneShare < state.jobs.size() || jobs.empty()) return 0;
    if (auto dropped = impl_->drop(jobs, state, now); !dropped) {
        impl_->roll_back();
        return tl::unexpected(std::move(dropped).error());
    }
    return jobs.size();
}

Result<std::vector<Row>> Ledger::read(std::int64_t since, int limit,
                                      std::optional<JobId> job) const {
    const char* const sql =
        job ? "SELECT seq, at, kind, body FROM events WHERE job = ?3 AND seq > ?1 "
              "ORDER BY seq LIMIT ?2"
            : "SELECT seq, at, kind, body FROM events WHERE seq > ?1 "
              "ORDER BY seq LIMIT ?2";
    ROLL_TRY(const Statement some, prepare(impl_->database.get(), sql));
    bind_value(some.get(), 1, since);
    bind_value(some.get(), 2, static_cast<std::int64_t>(limit));
    if (job) bind_value(some.get(), 3, static_cast<std::int64_t>(job->value));
    std::vector<Row> rows;
    for (std::size_t bytes = 0;;) {
        ROLL_TRY(const bool more, step(some.get()));
        if (!more || bytes > kReadBytesMax) return rows;
        rows.push_back(row_of(some.get()));
        bytes += rows.back().body.size();
    }
}

}  // namespace roll::ledger
