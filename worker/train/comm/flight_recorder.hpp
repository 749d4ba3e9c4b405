// Records the transfers of one rank, and explains one that does not end: which ranks never came.
//
// A thread of its own regularly publishes the rank's numbers: how many collectives it has issued in
// each group, how many messages it has sent, and the transfers that are not done. Once the rank has
// waited for a transfer longer than the patience, the thread compares its numbers with those of the
// other ranks, twice, and explains the transfer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Publishes a text under a key for all ranks, and reads such a text. `get` returns nullopt if the
// text cannot be read. Both are called from one thread.
struct Board {
    std::function<void(const std::string& key, const std::string& text)> set;
    std::function<std::optional<std::string>(const std::string& key)> get;
};

struct Flight {
    std::string group;
    std::string sequence;  // see sequence_of() in the .cpp
    std::int64_t seq = 0;  // number in the sequence, from 0
    Transfer::Kind kind{};
    Tag tag{};
    int peer = -1;  // sender of a receive, by its number in the group
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point issued{};
    std::optional<std::chrono::steady_clock::time_point> done{};
};

struct RecorderOptions {
    int rank = 0;                        // this rank's number in the job
    std::chrono::milliseconds period{};  // how often the rank publishes
    std::chrono::milliseconds patience{};
    // Called on the recorder's thread with the explanation of a transfer, and with an empty text
    // once that transfer is done.
    std::function<void(const std::string&)> on_stuck = [](const std::string&) {};
};

class FlightRecorder {
  public:
    using Id = std::int64_t;

    FlightRecorder(Board board, RecorderOptions options);
    ~FlightRecorder();
    FlightRecorder(const FlightRecorder&) = delete;
    FlightRecorder& operator=(const FlightRecorder&) = delete;

    // Declares a group with its ranks' numbers in the job.
    void join(const std::string& group, const std::vector<int>& ranks);
    Id issued(const std::string& group, const Transfer& transfer);
    void waits(Id id);  // the rank begins to wait for the transfer
    void done(Id id);

    // Returns the explanation of the transfer that the rank waits for. Blocks until it is known,
    // but returns "" if the rank has not waited longer than the patience.
    std::string explain();

    // Returns the latest transfers, one a line, the newest last.
    std::string latest();

  private:
    static constexpr std::size_t kKept = 20'000, kListed = 16;
    struct Group {
        std::vector<int> ranks;
        std::map<std::string, std::int64_t> next;  // by sequence
    };
    struct Seen {               // what another rank has published
        std::int64_t next = 0;  // its next number in the sequence
        std::int64_t beat = 0;
        std::string waits;     // the transfer that it waits for; "": none
        std::string issued{};  // the transfer that it issued under the number, if that is not done
    };
    struct Look {
        Id id;
        std::int64_t beat;
        std::vector<std::optional<Seen>> ranks;
    };

    void run();
    void tick(std::unique_lock<std::mutex>& lock);
    std::string text() const;
    bool is_patient() const;
    const Flight& at(Id id) const { return flights_[static_cast<std::size_t>(id - first_)]; }
    std::vector<int> others(const Flight& flight) const;
    std::optional<Seen> see(int rank, const Flight& flight) const;

    const Board board_;
    const RecorderOptions options_;
    mutable std::mutex mutex_;  // for the members below
    std::condition_variable changed_;
    bool is_stopping_ = false;
    std::map<std::string, Group> groups_;
    std::deque<Flight> flights_;                     // the last kKept transfers
    Id first_ = 0;                                   // id of flights_.front()
    std::optional<Id> waits_;                        // the transfer that the rank waits for
    std::chrono::steady_clock::time_point since_{};  // when the rank began to wait for it
    std::int64_t beat_ = 0;                          // number of publications
    std::optional<Look> look_;
    std::optional<std::pair<Id, std::string>> explained_;
    std::thread thread_;
};

}  // namespace roll::train
