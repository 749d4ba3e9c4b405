// The real ledger of a world: daemon/ledger with SQLite, over a disk in memory. Its mark, lock and
// snapshots are real files in a directory of its own.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "daemon/ledger/ledger.hpp"
#include "tests/sim/fake_disk.hpp"

namespace roll::sim {

// What was committed; the last `unsure` of it was not acknowledged and may be missing.
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

    // Of a rolld that starts. Before it, now and then, the disk turns bits or loses pages: that is
    // found, or changes nothing; then it is mended. False: the disk is full.
    bool open(Random& random, const Written& written, bool faults);
    Result<void> append(std::span<const core::Event> events, Time at);
    Result<core::State> load() const { return ledger_->load(); }
    std::int64_t newest() const { return ledger_->newest(); }

    // rolld ends: asked to, killed, or with the power.
    void close(const core::State& state);
    void crash(Random& random, bool power_lost);

    FakeDisk& disk() { return disk_; }
    long damaged() const { return damaged_; }  // starts that were refused for that

  private:
    void damage(Random& random, const Written& written);
    void age_mark(Random& random);

    FakeDisk disk_;
    std::filesystem::path directory_;
    std::optional<ledger::Ledger> ledger_{};
    std::vector<std::string> marks_{};  // what the mark's file has held since it was opened
    bool old_mark_ = false;             // what follows the mark may be lost without a word
    long damaged_ = 0;
};

}  // namespace roll::sim
