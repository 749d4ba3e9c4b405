// Publishes rolld's beats on a thread of its own: a volume that hangs must never stop the loop.
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

    // Writes the first record, counter 0. An empty path: no file, and a beat asked for is
    // published. Beats are at least `spacing` apart.
    BeaconWriter(std::filesystem::path path, io::Beacon first, std::chrono::milliseconds spacing);
    ~BeaconWriter();
    BeaconWriter(const BeaconWriter&) = delete;
    BeaconWriter& operator=(const BeaconWriter&) = delete;

    // Ends the writing. False: the thread hangs with its volume, and so would the destructor.
    bool end(std::chrono::milliseconds patience);

    // Asks for one more beat. Nothing happens if it would come too soon after the last one, or that
    // is still being written.
    void beat();

    // After how long beat() is worth a call: `spacing` while a beat is being written, or if one
    // could have been asked for already and was not.
    std::chrono::milliseconds until_due() const;

    // Before a turn acts (leases rule 18): if the file was last looked at more than three seconds
    // ago, this process may have stood still while another rolld took over, and it waits for a new
    // look. For two seconds at most, and not again while the volume does not answer.
    void look_again();

    // How long ago the last look began that could read the file, or find that there is none.
    std::chrono::nanoseconds unread_for() const;

    // Beats whose write and sync have returned (leases rule 1).
    std::uint64_t published() const { return published_; }

    // The file shows a newer rolld of this cluster: this one must end and send nothing (rule 18).
    bool superseded() const { return superseded_; }

  private:
    void write_beats();
    void look();
    void write(const io::Beacon& record);

    std::filesystem::path path_;
    io::Beacon record_;  // of the writing thread: the last one written
    std::chrono::milliseconds spacing_;
    std::atomic<std::uint64_t> published_{0};
    std::atomic<bool> superseded_{false};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::condition_variable looked_;
    bool wanted_ = true;  // the first record
    bool look_wanted_ = false;
    bool volume_hangs_ = false;  // a look took too long, and is under way still
    bool ended_ = false;
    bool gone_ = false;                   // the thread is
    std::chrono::nanoseconds looked_at_;  // when the last look began that has returned
    std::chrono::nanoseconds read_at_;    // and that told something
    Clock::time_point written_at_{};
    std::thread thread_;
};

}  // namespace roll::gateway
