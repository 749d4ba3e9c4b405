// A world's ledger on the real code: daemon/ledger with SQLite, on a disk in memory. Its mark, lock
// and snapshots are real files in their own directory.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "daemon/ledger/ledger.hpp"
#include "tests/sim/fake_disk.hpp"

namespace roll::sim {

// All events that were committed. The last `unsure` of them were not acknowledged and may be
// missing.
struct Written {
    std::span<const core::Event> events;
    std::int64_t unsure = 0;
    core::State after(std::int64_t count) const;
};

class StoredLedger {
  public:
    explicit StoredLedger(std::uint64_t seed);
    ~StoredLedger();
    StoredLedger(const StoredLedger&) = delete;
    StoredLedger& operator=(const StoredLedger&) = delete;

    // Opens the ledger for a rolld that starts. Before that, sometimes flips bits or removes pages
    // on the disk, checks that the ledger refuses the damage or is not affected, and repairs the
    // disk. Returns false if the disk is full.
    bool open(Random& random, const Written& written, bool faults);
    Result<void> append(std::span<const core::Event> events, Time at);
    Result<core::State> load() const { return ledger_->load(); }
    std::int64_t newest() const { return ledger_->newest(); }

    // End rolld: close() at its request, crash() by a kill or a power loss.
    void close(const core::State& state);
    void crash(Random& random, bool power_lost);

    FakeDisk& disk() { return disk_; }
    long damaged() const { return damaged_; }  // starts that were refused because of damage

  private:
    void damage(Random& random, const Written& written);
    void age_mark(Random& random);

    FakeDisk disk_;
    std::filesystem::path directory_;
    std::optional<ledger::Ledger> ledger_{};
    std::vector<std::string> marks_{};  // contents of the mark's file since it was opened
    bool old_mark_ = false;  // the mark is old, so that a loss of later rows cannot be noticed
    long damaged_ = 0;
};

}  // namespace roll::sim
