// The ledger: all events in order, durable, in one SQLite file on a local disk.
//
// The database uses WAL and synchronous=FULL. Each append is one transaction. SQLite does not
// notice all changed bytes: a flipped byte of a payload passes integrity_check, and a flipped byte
// of the WAL silently drops committed rows. Rows therefore form a hash chain, and the file
// `ledger.mark` has the newest (seq, hash) outside the database. Damage is found and reported at
// open; a damaged ledger is not served.
//
// The mark is written in place after each commit and not synced. After a process crash it is exact.
// After a power loss it may be old, but still matches a row of the chain. The mark cannot show that
// rows are lost if they were committed after the last mark that reached the disk.
//
// Only one thread may use the ledger. No other code may open the database file while SQLite has it
// open, because closing a second descriptor would drop SQLite's locks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "daemon/core/state/event.hpp"
#include "daemon/core/state/row.hpp"

namespace roll::ledger {

using core::Row;

// The space that a ledger uses and that its volume has left, in bytes. A value that the system does
// not report is missing.
struct Space {
    std::optional<std::uintmax_t> bytes{};       // size of ledger.db
    std::optional<std::uintmax_t> wal_bytes{};   // size of the write-ahead log, ledger.db-wal
    std::optional<std::uintmax_t> free_bytes{};  // space that rolld may use
};

class Ledger {
  public:
    // Opens the ledger of a directory, or creates it if there is none. Fails with Refused if
    // another rolld has the ledger open, or if the ledger has a newer format. Fails with Corrupt if
    // the ledger is damaged. The error names the file and says how to recover.
    static Result<Ledger> open(const std::filesystem::path& directory);

    Ledger(Ledger&&) noexcept;
    Ledger& operator=(Ledger&&) noexcept;
    ~Ledger();

    // Appends the events and returns once they are durable. Fails with Refused if the volume is
    // full; then nothing was written. After any other error the process must end and read the
    // ledger again.
    Result<void> append(std::span<const core::Event> events, Time at);

    // Returns State: the events applied in order. Starts from the snapshot if it belongs to this
    // ledger's hash chain.
    Result<core::State> load() const;
    // Like load(), but without the snapshot.
    Result<core::State> fold() const;

    // Writes a snapshot of `state` next to the ledger if many events were appended since the last
    // snapshot. Without a new snapshot, replaying these events would be slow. `state` must be
    // current. A child process writes the snapshot. If `now` is true, this process writes the
    // snapshot, whatever the number of events.
    void keep_snapshot(const core::State& state, bool now = false);

    // Returns at most `limit` events after event `since`; if `job` is given, only events of that
    // job.
    Result<std::vector<Row>> read(std::int64_t since, int limit, std::optional<JobId> job) const;

    // Removes all events of the jobs that ended before `cutoff` and that no other job needs. Does
    // nothing if these jobs are less than a tenth of all jobs. Returns the number of removed jobs.
    //
    // `state` must be the result of load(). Call this function before rolld serves clients. Then
    // call load() again: load() now returns State without the removed jobs, but with their resource
    // use. The remaining events keep their numbers.
    Result<std::size_t> prune(const core::State& state, Time cutoff, Time now);

    std::int64_t newest() const;
    Space space() const;

  private:
    struct Impl;
    explicit Ledger(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace roll::ledger
