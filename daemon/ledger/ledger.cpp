#include "daemon/ledger/ledger.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/hash.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/migrations.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {
namespace {

std::uint64_t chain(std::uint64_t before, const Row& row) {
    const std::string head =
        fmt::format("{} {} {} ", row.seq, row.at.time_since_epoch().count(), row.kind);
    return hash64(row.body, hash64(head, before));
}

// A lock of a file beside the database: the database file itself is SQLite's alone.
class Lock {
  public:
    static Result<Lock> take(const std::filesystem::path& path) {
        Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        if (lock.fd_ < 0) {
            return fail(ErrorCode::Failed, "cannot open " + path.string() + ": " +
                                               std::generic_category().message(errno));
        }
        if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
            return fail(ErrorCode::Refused, "another rolld serves " + path.parent_path().string(),
                        "use that one, end it with `rollctl down`, or give another --dir");
        }
        return lock;
    }
    Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Lock& operator=(Lock&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
        if (fd_ >= 0) ::close(fd_);
    }

  private:
    explicit Lock(int fd) : fd_(fd) {}
    int fd_;
};

tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what) {
    return fail(
        ErrorCode::Corrupt, path.string() + " is damaged: " + what,
        "restore " + path.parent_path().string() +
            " from a backup, or move ledger.db* and ledger.mark away to begin an empty queue "
            "(checkpoints and exports are not touched)");
}

Result<void> check_pages(sqlite3* database, const std::filesystem::path& path) {
    const auto statement = prepare(database, "PRAGMA integrity_check(1)");
    if (!statement) return damaged(path, statement.error().message);
    const auto row = step(statement->get());
    if (!row) return damaged(path, row.error().message);
    const std::string verdict = column_text(statement->get(), 0);
    if (verdict != "ok") return damaged(path, verdict);
    return {};
}

Row row_of(sqlite3_stmt* statement) {
    return {.seq = sqlite3_column_int64(statement, 0),
            .at = Time{std::chrono::milliseconds{sqlite3_column_int64(statement, 1)}},
            .kind = column_text(statement, 2),
            .body = column_text(statement, 3)};
}

}  // namespace

struct Ledger::Impl {
    std::filesystem::path path;
    Lock lock;
    MarkFile mark;
    Database database;
    Statement insert;
    Mark head{};  // the newest row

    Result<void> check_chain();
    Result<void> insert_row(const Row& row, std::optional<JobId> job, std::uint64_t hash);
    Result<Mark> insert_all(std::span<const core::Event> events, Time at);
};

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

std::int64_t Ledger::newest() const { return impl_->head.seq; }

// Walks every row: each hash follows from the one before, and the mark's row is among them.
Result<void> Ledger::Impl::check_chain() {
    const auto marked = mark.read();
    ROLL_TRY(const Statement all,
             prepare(database.get(), "SELECT seq, at, kind, body, hash FROM events ORDER BY seq"));
    bool mark_found = !marked || marked->seq == 0;
    for (;;) {
        const auto more = step(all.get());
        if (!more) return damaged(path, more.error().message);
        if (!*more) break;
        const Row row = row_of(all.get());
        const auto stored = static_cast<std::uint64_t>(sqlite3_column_int64(all.get(), 4));
        if (row.seq != head.seq + 1)
            return damaged(path, fmt::format("event {} is followed by {}", head.seq, row.seq));
        head = {row.seq, chain(head.hash, row)};
        if (head.hash != stored)
            return damaged(path, fmt::format("event {} is not what was written", row.seq));
        if (marked && head == *marked) mark_found = true;
    }
    if (mark_found) return {};
    return damaged(path,
                   fmt::format("it ends at event {}, but event {} had been committed (the WAL "
                               "{}-wal lost what followed)",
                               head.seq, marked->seq, path.string()));
}

Result<Ledger> Ledger::open(const std::filesystem::path& directory) {
    ROLL_TRY_VOID(make_directories(directory));
    const std::filesystem::path path = directory / "ledger.db";
    ROLL_TRY(Lock lock, Lock::take(directory / "ledger.lock"));
    ROLL_TRY(MarkFile mark, MarkFile::open(directory / "ledger.mark"));
    ROLL_TRY(Database database, open_database(path));
    if (const auto checked = check_pages(database.get(), path); !checked)
        return tl::unexpected(checked.error());
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
    auto impl = std::make_unique<Impl>(
        Impl{path, std::move(lock), std::move(mark), std::move(database), std::move(insert)});
    ROLL_TRY_VOID(impl->check_chain());
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
    const auto done = step(s);
    sqlite3_reset(s);
    if (!done) return tl::unexpected(done.error());
    return {};
}

Result<Mark> Ledger::Impl::insert_all(std::span<const core::Event> events, Time at) {
    ROLL_TRY_VOID(execute(database.get(), "BEGIN IMMEDIATE"));
    Mark next = head;
    for (const core::Event& event : events) {
        const Row row{next.seq + 1, at, kind_of(event), body_of(event)};
        next = {row.seq, chain(next.hash, row)};
        ROLL_TRY_VOID(insert_row(row, job_of(event), next.hash));
    }
    ROLL_TRY_VOID(execute(database.get(), "COMMIT"));
    return next;
}

Result<void> Ledger::append(std::span<const core::Event> events, Time at) {
    auto next = impl_->insert_all(events, at);
    if (!next) {
        if (sqlite3_get_autocommit(impl_->database.get()) == 0)
            sqlite3_exec(impl_->database.get(), "ROLLBACK", nullptr, nullptr, nullptr);
        return tl::unexpected(next.error());
    }
    impl_->head = *next;
    impl_->mark.write(*next);
    return {};
}

Result<core::State> Ledger::load() const {
    core::State state;
    ROLL_TRY(const Statement all,
             prepare(impl_->database.get(), "SELECT seq, at, kind, body FROM events ORDER BY seq"));
    for (;;) {
        ROLL_TRY(const bool more, step(all.get()));
        if (!more) return state;
        const Row row = row_of(all.get());
        const auto event = event_from(row.kind, row.body);
        if (!event) return damaged(impl_->path, event.error().message);
        core::apply(state, *event);
    }
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
    for (;;) {
        ROLL_TRY(const bool more, step(some.get()));
        if (!more) return rows;
        rows.push_back(row_of(some.get()));
    }
}

}  // namespace roll::ledger
