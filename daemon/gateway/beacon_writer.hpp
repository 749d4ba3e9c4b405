// Publishes rolld's ticks. A tick is one increment of the counter in the beacon file. A separate
// thread writes the file, so that a hung volume never blocks rolld's loop.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/io/beacon.hpp"

namespace roll::gateway {

class BeaconWriter {
  public:
    using Clock = std::chrono::steady_clock;

    // Writes `first` as the first record, with counter 0. If `path` is empty, writes no file, and
    // beat() publishes each tick at once. Ticks are at least `spacing` apart.
    BeaconWriter(std::filesystem::path path, io::Beacon first, std::chrono::milliseconds spacing);
    ~BeaconWriter();
    BeaconWriter(const BeaconWriter&) = delete;
    BeaconWriter& operator=(const BeaconWriter&) = delete;

    // Stops writing and waits up to `patience` for the thread's end. Returns false if the thread
    // still hangs in a call on the file's volume. Do not destroy the object then, because the
    // destructor would also hang.
    bool end(std::chrono::milliseconds patience);

    // Requests one more tick. Ignored if the last tick was less than `spacing` ago or is still
    // being written.
    void beat();

    // Returns the time until the next tick is due. Returns `spacing`, the time between two ticks,
    // if a tick is due now or is being written.
    std::chrono::milliseconds until_due() const;

    // Reads the beacon file if the last read is older than three seconds. Call look_again() before
    // a turn acts (leases rule 18): this process may have been suspended while another rolld took
    // over. Waits at most two seconds for the read. While a read takes longer than that, further
    // calls return at once.
    void look_again();

    // Returns the time since the start of the last read that either succeeded or found no file.
    std::chrono::nanoseconds unread_for() const;

    // Returns the number of ticks that are on disk: write and sync have returned (leases rule 1).
    std::uint64_t published() const { return published_; }

    // Returns whether the file shows a newer rolld of this ledger. This rolld must then end and
    // send nothing (leases rule 18).
    bool superseded() const { return superseded_; }

  private:
    void write_beats();
    void look();
    void write(const io::Beacon& record);

    std::filesystem::path path_;
    io::Beacon record_;  // last record written; used only by the writing thread
    std::chrono::milliseconds spacing_;
    std::atomic<std::uint64_t> published_{0};
    std::atomic<bool> superseded_{false};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::condition_variable looked_;
    bool wanted_ = true;  // true if a tick was requested; true at first, for the first record
    bool look_wanted_ = false;
    bool volume_hangs_ = false;  // true while a read of the file that timed out still runs
    bool ended_ = false;
    bool gone_ = false;                   // true once the thread has ended
    std::chrono::nanoseconds looked_at_;  // start of the last read that has returned
    std::chrono::nanoseconds read_at_;    // start of the last read that succeeded or found no file
    Clock::time_point written_at_{};
    std::thread thread_;
};

}  // namespace roll::gateway
