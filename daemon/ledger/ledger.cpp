#include "daemon/ledger/ledger.hpp"

#include <fmt/format.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "daemon/ledger/chain.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/lock.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/migrations.hpp"
#include "daemon/ledger/prune.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {
namespace {

constexpr std::size_t kPruneShare = 10;  // every row is rehashed: worth it from a tenth on

}  // namespace

struct Ledger::Impl {
    std::filesystem::path path;
    Lock lock;
    MarkFile mark;
    Database database;
    Statement insert;
    Mark head{};  // the newest row

    Result<void> insert_row(const Row& row, std::optional<JobId> job, std::uint64_t hash);
    Result<Mark> insert_all(std::span<const core::Event> events, Time at);
    Result<void> drop(const std::set<JobId>& jobs, Time now);
    void roll_back() const;
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

Result<Ledger> Ledger::open(const std::filesystem::path& directory) {
    ROLL_TRY_VOID(make_directories(directory));
    const std::filesystem::path path = directory / "ledger.db";
    ROLL_TRY(Lock lock, Lock::take(directory));
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
    ROLL_TRY(impl->head, check_chain(impl->database.get(), path, impl->mark.read()));
    impl->mark.write(impl->head);
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
        impl_->roll_back();
        return tl::unexpected(next.error());
    }
    impl_->head = *next;
    impl_->mark.write(*next);
    return {};
}

Result<core::State> Ledger::load() const {
    core::State state;
    ROLL_TRY(
        const Statement all,
        prepare(impl_->database.get(), "SELECT seq, at, kind, body, job FROM events ORDER BY seq"));
    for (;;) {
        ROLL_TRY(const bool more, step(all.get()));
        if (!more) return state;
        const Row row = row_of(all.get());
        const auto event = event_from(row.kind, row.body);
        if (!event) return damaged(impl_->path, event.error().message);
        // The column is outside the chain, but follows from what is inside.
        const JobId filed{static_cast<std::uint64_t>(sqlite3_column_int64(all.get(), 4))};
        if (job_of(*event).value_or(JobId{}) != filed)
            return damaged(impl_->path,
                           fmt::format("event {} is filed under job {}", row.seq, filed.value));
        core::apply(state, *event);
    }
}

Result<void> Ledger::Impl::drop(const std::set<JobId>& jobs, Time now) {
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
    ROLL_TRY(const Statement all,
             prepare(database.get(), "SELECT seq, at, kind, body FROM events ORDER BY seq"));
    ROLL_TRY(const Statement set,
             prepare(database.get(), "UPDATE events SET hash = ? WHERE seq = ?"));
    Mark next;
    for (;;) {
        ROLL_TRY(const bool more, step(all.get()));
        if (!more) break;
        const Row row = row_of(all.get());
        next = {row.seq, chain(next.hash, row)};
        bind_value(set.get(), 1, static_cast<std::int64_t>(next.hash));
        bind_value(set.get(), 2, row.seq);
        ROLL_TRY_VOID(step(set.get()));
        sqlite3_reset(set.get());
    }
    sqlite3_reset(all.get());
    ROLL_TRY_VOID(execute(database.get(), "COMMIT"));
    head = next;
    mark.write(head);
    return {};
}

Result<std::size_t> Ledger::prune(const core::State& state, Time cutoff, Time now) {
    const std::set<JobId> jobs = forgettable(state, cutoff);
    if (jobs.size() * kPruneShare < state.jobs.size() || jobs.empty()) return 0;
    if (auto dropped = impl_->drop(jobs, now); !dropped) {
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
    for (;;) {
        ROLL_TRY(const bool more, step(some.get()));
        if (!more) return rows;
        rows.push_back(row_of(some.get()));
    }
}

}  // namespace roll::ledger
