// Publishes rolld's beats on a thread of its own: a volume that hangs must never stop the loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/io/beacon.hpp"

namespace roll::gateway {

class BeaconWriter {
  public:
    // Writes the first record, counter 0. An empty path: no file, and a beat asked for is
    // published.
    BeaconWriter(std::filesystem::path path, io::Beacon first);
    ~BeaconWriter();
    BeaconWriter(const BeaconWriter&) = delete;
    BeaconWriter& operator=(const BeaconWriter&) = delete;

    // Asks for one more beat, unless one is still being written.
    void beat();

    // Beats whose write and sync have returned (leases rule 1).
    std::uint64_t published() const { return published_; }

  private:
    void write_beats();

    std::filesystem::path path_;
    io::Beacon record_;
    std::atomic<std::uint64_t> published_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    bool wanted_ = false;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace roll::gateway
