// The ledger: every event, in order, durable, in one SQLite file on a local disk.
//
// WAL, synchronous=FULL, one transaction an append. SQLite does not notice changed bytes (a flipped
// byte of a payload passes integrity_check, a flipped byte of the WAL drops committed rows without
// a word), so rows carry a hash chain, and `ledger.mark` holds the newest (seq, hash) outside the
// database. Damage is found at open and named; nothing is served from a damaged ledger.
//
// The mark is written after each commit, in place, and not synced: after a crash of the process it
// is exact, after a loss of power it may be old, and an old mark is still a row of the chain. What
// it cannot show is the loss of rows that were committed after the last mark that reached the disk.
//
// One thread. Never opens the database file but through SQLite (a close would drop its locks).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "daemon/core/core.hpp"
#include "daemon/core/row.hpp"

namespace roll::ledger {

using core::Row;

class Ledger {
  public:
    // Makes the ledger if there is none. Refused: another rolld has it, or the file is of a newer
    // format. Corrupt: damage; the message names the file and the hint the way back.
    static Result<Ledger> open(const std::filesystem::path& directory);

    Ledger(Ledger&&) noexcept;
    Ledger& operator=(Ledger&&) noexcept;
    ~Ledger();

    // Durable on return. Refused: the volume is full, nothing was written. Other errors: the
    // process must end and read the ledger anew.
    Result<void> append(std::span<const core::Event> events, Time at);

    // State as the fold of every event: of the snapshot, if one of this chain is there, and of what
    // follows it.
    Result<core::State> load() const;
    // The same from the events alone.
    Result<core::State> fold() const;

    // Has a snapshot of `state`, which is that of the newest event, written beside the ledger once
    // so many events have come since the last one that folding them would take a while. In a child
    // process; `now`: by this one, whatever has come.
    void keep_snapshot(const core::State& state, bool now = false);

    // Events after `since`, at most `limit`, of one job if given.
    Result<std::vector<Row>> read(std::int64_t since, int limit, std::optional<JobId> job) const;

    // Drops every event of the jobs that ended before `cutoff` and that no other job needs, if they
    // are a tenth of all; `state` is what load() gave. How many jobs. To be called before the state
    // is served: load() then gives one without them, but with what they had used. Events keep their
    // numbers.
    Result<std::size_t> prune(const core::State& state, Time cutoff, Time now);

    std::int64_t newest() const;

  private:
    struct Impl;
    explicit Ledger(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace roll::ledger
