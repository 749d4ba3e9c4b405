#include "daemon/ledger/backup.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/files.hpp"
#include "daemon/ledger/chain.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/lock.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {
namespace {

namespace fs = std::filesystem;

// Returns whether the volume of the path is mounted read-only, for example after disk errors.
bool is_read_only(const fs::path& path) {
    struct statvfs volume {};
    return ::statvfs(path.c_str(), &volume) == 0 && (volume.f_flag & ST_RDONLY) != 0;
}

Result<void> move_file(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error && error != std::errc::no_such_file_or_directory) {
        return fail(ErrorCode::Failed, fmt::format("cannot rename {} to {}: {}", from.string(),
                                                   to.string(), error.message()));
    }
    return {};
}

// A temporary directory. The destructor removes the directory if it still has the temporary name.
struct Scratch {
    fs::path path;
    explicit Scratch(fs::path directory) : path(std::move(directory)) { clear(); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { clear(); }
    void clear() const {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
};

// Checks and closes the ledger in `directory`. Closing merges the WAL into the database. Returns
// the number of the newest event.
Result<std::int64_t> check_and_close(const fs::path& directory) {
    std::int64_t newest = 0;
    {
        ROLL_TRY(const Ledger ledger, Ledger::open(directory));
        ROLL_TRY_VOID(ledger.load());
        newest = ledger.newest();
    }
    std::error_code ignored;
    fs::remove(directory / "ledger.lock", ignored);
    return newest;
}

Result<void> sync_file(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && ::fsync(fd) == 0;
    const int number = errno;
    if (fd >= 0) ::close(fd);
    if (synced) return {};
    return fail(ErrorCode::Failed,
                fmt::format("cannot sync {}: {}", path.string(), std::strerror(number)));
}

// Makes the copy writable, because the files of a backup may be read-only.
Result<void> copy_synced(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
    if (!error) fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write, error);
    if (!error) return sync_file(to);
    return fail(ErrorCode::Failed, fmt::format("cannot copy {} to {}: {}", from.string(),
                                               to.string(), error.message()));
}

// Copies the files of a ledger that has a mark.
Result<void> copy_files(const fs::path& from, const fs::path& to) {
    for (const char* name : {"ledger.db", "ledger.mark"})
        ROLL_TRY_VOID(copy_synced(from / name, to / name));
    // A backup made by --backup has no WAL. A copy made by other means may have a WAL.
    const char* const wal = "ledger.db-wal";
    return path_exists(from / wal) ? copy_synced(from / wal, to / wal) : Result<void>{};
}

Result<void> copy_backup(const fs::path& backup, const fs::path& to) {
    for (const char* name : {"ledger.db", "ledger.mark"})
        if (!path_exists(backup / name))
            return fail(ErrorCode::NotFound,
                        fmt::format("{} is not a backup: it has no {}", backup.string(), name),
                        "give a directory that `rolld --backup` created");
    return copy_files(backup, to);
}

// Copies the ledger of a state directory on a read-only volume. SQLite cannot open a ledger with a
// WAL there.
Result<void> copy_read_only(const fs::path& state, const fs::path& to) {
    if (path_exists(state / "ledger.mark")) return copy_files(state, to);
    return fail(ErrorCode::NotFound,
                fmt::format("the state directory {} has no ledger.mark, so the end of its ledger "
                            "cannot be checked",
                            state.string()),
                "copy its files ledger.* to a volume that is not read-only, and run `rolld "
                "--backup` with --dir set to the copy");
}

// Converts an error about the temporary copy of a ledger to an error that names the ledger itself.
tl::unexpected<Error> of_original(Error error, const fs::path& copy, const fs::path& original) {
    for (std::string* const text : {&error.message, &error.hint})
        for (std::size_t at = 0; (at = text->find(copy.string(), at)) != std::string::npos;
             at += original.string().size())
            text->replace(at, copy.string().size(), original.string());
    return tl::unexpected(std::move(error));
}

// Moves the ledger of `state` to `before`, and then the ledger of `made` to `state`. Moves the mark
// last: a rolld that starts in between refuses a ledger that is missing or does not match the mark.
Result<void> put_in_place(const fs::path& made, const fs::path& state, const fs::path& before) {
    ROLL_TRY_VOID(make_directories(before));
    for (const char* name : {"ledger.snapshot", "ledger.db-wal", "ledger.db-shm", "ledger.db"})
        ROLL_TRY_VOID(move_file(state / name, before / name));
    ROLL_TRY_VOID(copy_synced(made / "ledger.db", state / "ledger.db"));
    std::error_code ignored;
    fs::copy_file(state / "ledger.mark", before / "ledger.mark", ignored);
    ROLL_TRY_VOID(copy_synced(made / "ledger.mark", state / "ledger.mark"));
    return fsync_directory(state);
}

// Gives the restored ledger to the owner of the state directory. Otherwise, a rolld that runs as
// this owner could not open a ledger that root restored.
Result<void> give_to_owner(const fs::path& state, const fs::path& before) {
    struct stat owner {};
    if (::geteuid() != 0 || ::stat(state.c_str(), &owner) != 0) return {};
    std::vector<fs::path> given{state / "ledger.lock", state / "ledger.db", state / "ledger.mark",
                                before};
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(before, error)) given.push_back(entry.path());
    for (const fs::path& path : given) {
        if (::lchown(path.c_str(), owner.st_uid, owner.st_gid) == 0) continue;
        return fail(
            ErrorCode::Failed,
            fmt::format("the ledger is restored, but {} cannot be given to the owner of {}: "
                        "{}",
                        path.string(), state.string(), std::strerror(errno)));
    }
    return {};
}

// Writes the events of the ledger in `state` to a new ledger in `to`. A rolld may be adding events.
Result<void> copy_served(const fs::path& state, const fs::path& to) {
    const fs::path source = state / "ledger.db";
    // Read the mark before copying the database, because rolld may add events at any time. In this
    // order, the copy has all events up to the mark, and maybe more.
    ROLL_TRY(const MarkFile mark, MarkFile::open(state / "ledger.mark"));
    const std::optional<Mark> marked = mark.read();
    ROLL_TRY(const Database database, open_database(source));
    ROLL_TRY_VOID(check_chain(database.get(), source, marked));
    ROLL_TRY(const Statement copy, prepare(database.get(), "VACUUM INTO ?"));
    const std::string target = (to / "ledger.db").string();
    bind_value(copy.get(), 1, target);
    return step(copy.get()).map([](bool) {});
}

// Copies the ledger in `state` to the temporary directory, and checks the copy. Returns the number
// of the newest event.
Result<std::int64_t> copy_checked(const fs::path& state, const Scratch& copy) {
    copy.clear();
    ROLL_TRY_VOID(make_directories(copy.path));
    ROLL_TRY_VOID(is_read_only(state) ? copy_read_only(state, copy.path)
                                      : copy_served(state, copy.path));
    const auto newest = check_and_close(copy.path);
    if (!newest) return of_original(newest.error(), copy.path, state);
    return newest;
}

struct Told {
    Mark head;  // last row before the first row with a wrong hash, or the newest row
    std::uint64_t next_job = 1;
};

std::uint64_t next_after(const core::Row& row) {
    if (row.kind != "job_submitted" && row.kind != "incarnation_raised") return 1;
    const auto event = event_from(row.kind, row.body);
    if (!event) return 1;
    if (const auto* raised = std::get_if<core::IncarnationRaised>(&*event)) return raised->next_job;
    return std::get<core::JobSubmitted>(*event).job.value + 1;
}

Told told_by(const fs::path& ledger) {
    Told told;
    if (!path_exists(ledger)) return told;
    const auto database = open_database(ledger);
    if (!database) return told;
    const auto all =
        prepare(database->get(), "SELECT seq, at, kind, body, hash FROM events ORDER BY seq");
    if (!all) return told;
    for (;;) {
        const auto more = step(all->get());
        if (!more || !*more) return told;
        const core::Row row = row_of(all->get());
        const Mark next{row.seq, chain(told.head.hash, row)};
        if (next.hash != static_cast<std::uint64_t>(sqlite3_column_int64(all->get(), 4)))
            return told;
        told.head = next;
        told.next_job = std::max(told.next_job, next_after(row));
    }
}

// Returns the first number that no job of the ledger in `state` can have had, even if the ledger is
// damaged. If the ledger is damaged, assumes the worst: each event from the last readable row up to
// the mark has submitted one job. Returns 1 if there are neither jobs nor a mark.
// A number is never reused, because it names a directory.
std::uint64_t unused_job(const fs::path& state) {
    const Told told = told_by(state / "ledger.db");
    const auto mark = MarkFile::open(state / "ledger.mark");
    const Mark marked = mark ? mark->read().value_or(Mark{}) : Mark{};
    const std::int64_t lost = std::max<std::int64_t>(0, marked.seq - told.head.seq);
    return told.next_job + static_cast<std::uint64_t>(lost);
}

}  // namespace

Result<std::int64_t> back_up(const fs::path& state, const fs::path& directory) {
    const fs::path target = directory.has_filename() ? directory : directory.parent_path();
    const fs::path source = state / "ledger.db";
    if (!path_exists(source))
        return fail(ErrorCode::NotFound, "there is no ledger in " + state.string(),
                    "set --dir to the state directory of rolld");
    if (path_exists(target)) {
        return fail(ErrorCode::Refused, target.string() + " exists",
                    "give a directory that does not exist yet");
    }
    const Scratch scratch(target.string() + ".tmp");
    auto newest = copy_checked(state, scratch);
    // If `state` is a read-only bind mount, a rolld may have changed the files while they were
    // copied. The copy then looks damaged although the ledger is not.
    if (!newest && newest.error().code == ErrorCode::Corrupt && is_read_only(state))
        newest = copy_checked(state, scratch);
    if (!newest) return newest;
    ROLL_TRY_VOID(sync_file(scratch.path / "ledger.db"));
    ROLL_TRY_VOID(sync_file(scratch.path / "ledger.mark"));
    ROLL_TRY_VOID(rename_new(scratch.path, target));
    return newest;
}

Result<Restored> restore(const fs::path& backup, const fs::path& state, std::uint64_t incarnation,
                         Time now) {
    ROLL_TRY(const Lock lock, Lock::take(state));
    const Scratch scratch(state / ".ledger-restore");
    ROLL_TRY_VOID(make_directories(scratch.path));
    if (!backup.empty()) ROLL_TRY_VOID(copy_backup(backup, scratch.path));
    Restored restored;
    {
        auto copy = Ledger::open(scratch.path);
        if (!copy)
            return of_original({copy.error().code, copy.error().message,
                                "nothing was changed; give an earlier backup"},
                               scratch.path, backup);
        ROLL_TRY(const core::State known, copy->load());
        restored.next_job = std::max(known.next_job, unused_job(state));
        const std::array<core::Event, 2> raised{
            core::IncarnationRaised{std::max(incarnation, known.incarnation + 1), now,
                                    restored.next_job},
            core::AdoptingSet{true}};
        ROLL_TRY_VOID(copy->append(raised, now));
    }
    ROLL_TRY(restored.newest, check_and_close(scratch.path));
    restored.before = state / fmt::format("ledger-before-{}", now.time_since_epoch().count());
    ROLL_TRY_VOID(put_in_place(scratch.path, state, restored.before));
    ROLL_TRY_VOID(give_to_owner(state, restored.before));
    return restored;
}

}  // namespace roll::ledger
