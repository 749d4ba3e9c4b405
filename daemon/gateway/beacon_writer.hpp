// Publishes rolld's beats from a separate thread, so that a hung volume never blocks the loop.
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

    // Writes the first record with counter 0. With an empty path no file is written, and each
    // requested beat counts as published. Beats are at least `spacing` apart.
    BeaconWriter(std::filesystem::path path, io::Beacon first, std::chrono::milliseconds spacing);
    ~BeaconWriter();
    BeaconWriter(const BeaconWriter&) = delete;
    BeaconWriter& operator=(const BeaconWriter&) = delete;

    // Stops writing and waits up to `patience` for the thread's end. Returns false if the thread
    // hangs with its volume; then the destructor would hang, too.
    bool end(std::chrono::milliseconds patience);

    // Requests one more beat. Ignored if it is too early after the last one or if that is still
    // being written.
    void beat();

    // Returns the time until beat() has an effect; `spacing` if a beat is being written or is
    // already overdue.
    std::chrono::milliseconds until_due() const;

    // Call before a turn acts (leases rule 18). If the last look at the file is older than three
    // seconds, this process may have been suspended while another rolld took over, so a new look
    // is awaited. Waits at most two seconds, and not again while the volume hangs.
    void look_again();

    // Returns the time since the start of the last successful look: one that read the file or
    // found it missing.
    std::chrono::nanoseconds unread_for() const;

    // Number of beats whose write and sync have returned (leases rule 1).
    std::uint64_t published() const { return published_; }

    // True if the file shows a newer rolld of this cluster: this one must end and send nothing
    // (rule 18).
    bool superseded() const { return superseded_; }

  private:
    void write_beats();
    void look();
    void write(const io::Beacon& record);

    std::filesystem::path path_;
    io::Beacon record_;  // last record written; used by the writing thread only
    std::chrono::milliseconds spacing_;
    std::atomic<std::uint64_t> published_{0};
    std::atomic<bool> superseded_{false};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::condition_variable looked_;
    bool wanted_ = true;  // a beat was requested; true at first for the first record
    bool look_wanted_ = false;
    bool volume_hangs_ = false;  // a look timed out and is still running
    bool ended_ = false;
    bool gone_ = false;                   // the thread has ended
    std::chrono::nanoseconds looked_at_;  // start of the last look that returned
    std::chrono::nanoseconds read_at_;    // start of the last look that was successful
    Clock::time_point written_at_{};
    std::thread thread_;
};

}  // namespace roll::gateway
