// Records the transfers of one rank. If a transfer does not end, reports which ranks have not
// issued this transfer.
//
// A separate thread regularly publishes how many collectives the rank has issued in each group, how
// many messages the rank has sent, and which transfers are not done. If the rank waits for a
// transfer longer than RecorderOptions::patience, the thread reads the publications of the other
// ranks twice. The second reading shows which ranks still publish. Then the thread explains why the
// transfer does not end.
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

// Functions that publish a text for all ranks under a key, and read such a text. `get` returns
// nullopt if the text cannot be read. Both functions are called from one thread.
struct Board {
    std::function<void(const std::string& key, const std::string& text)> set;
    std::function<std::optional<std::string>(const std::string& key)> get;
};

struct Flight {
    std::string group;
    std::string sequence;  // name of the sequence: "" for collectives, "FROM>TO SITE" for messages
    std::int64_t seq = 0;  // number of the transfer in its sequence, counted from 0
    Transfer::Kind kind{};
    Tag tag{};
    int peer = -1;  // only for a receive: the sender's number in the group
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point issued{};
    std::optional<std::chrono::steady_clock::time_point> done{};
};

struct RecorderOptions {
    int rank = 0;                        // this rank's number in the job
    int ranks = 1;                       // number of the job's ranks
    std::chrono::milliseconds period{};  // interval at which the rank publishes
    std::chrono::milliseconds patience{};
    // true: this rank keeps rank 0's latest text, for texts()
    bool keeps_first = false;
    // Called on the recorder's thread with the explanation of a transfer. Called again with an
    // empty text when that transfer is done.
    std::function<void(const std::string&)> on_stuck = [](const std::string&) {};
};

class FlightRecorder {
  public:
    using Id = std::int64_t;

    FlightRecorder(Board board, RecorderOptions options);
    ~FlightRecorder();
    FlightRecorder(const FlightRecorder&) = delete;
    FlightRecorder& operator=(const FlightRecorder&) = delete;

    // Registers a group. `ranks` are the numbers that the group's ranks have in the job.
    void join(const std::string& group, const std::vector<int>& ranks);
    Id issued(const std::string& group, const Transfer& transfer);
    void waits(Id id);  // records that the rank begins to wait for the transfer
    void done(Id id);

    // Returns the explanation of the transfer for which the rank waits, and blocks until it is
    // known. If the rank has waited for less than RecorderOptions::patience, returns "" instead.
    std::string explain();

    // Returns the latest transfers, one per line; the newest is last.
    std::string latest();
    // Returns all recorded transfers as a table with tabs between its columns; the newest is last.
    std::string table();
    // Returns the table of all ranks (merged_transfers.hpp) if this rank is the first of the ranks
    // that wait for the transfer. Returns "" on all other ranks, and if a rank's text cannot be
    // read. Must be called by RecorderOptions::on_stuck.
    std::string merged_table();
    // Returns true if a rank's text could not be read, for the explanation or for merged_table().
    // Must be called by RecorderOptions::on_stuck.
    bool lacks_texts() const { return lacks_texts_; }
    // Returns the texts that this rank knows without reading the board. The key is the rank. The
    // texts are its own and, with RecorderOptions::keeps_first, rank 0's latest. Must be called by
    // RecorderOptions::on_stuck.
    std::map<int, std::string> texts() const;

  private:
    static constexpr std::size_t kKept = 20'000, kListed = 16;
    struct Group {
        std::vector<int> ranks;
        std::map<std::string, std::int64_t> next;  // number of the next transfer of each sequence
    };
    struct Seen {               // what another rank has published about the sequence of a transfer
        std::int64_t next = 0;  // number of that rank's next transfer in the sequence
        std::int64_t beat = 0;
        std::string waits;     // the transfer for which that rank waits; empty if there is none
        std::string issued{};  // that rank's transfer with the same number; empty if it is done
    };
    struct Look {
        Id id;
        std::int64_t beat;
        std::vector<std::optional<Seen>> ranks;
    };

    void run();
    void tick(std::unique_lock<std::mutex>& lock);
    void keep_first();
    std::string text() const;
    bool is_patient() const;
    const Flight& at(Id id) const { return flights_[static_cast<std::size_t>(id - first_)]; }
    std::vector<int> others(const Flight& flight) const;
    std::optional<Seen> see(int rank, const Flight& flight) const;

    const Board board_;
    const RecorderOptions options_;
    // true: this rank is the first of the ranks that wait for the explained transfer; used only on
    // thread_
    bool is_first_ = false;
    // true: a rank's text could not be read; used only on thread_
    bool lacks_texts_ = false;
    std::optional<std::string> kept_;  // rank 0's last text; used only on thread_
    bool keeps_ = options_.keeps_first;
    mutable std::mutex mutex_;  // guards the members that follow
    std::condition_variable changed_;
    bool is_stopping_ = false;
    std::map<std::string, Group> groups_;
    std::deque<Flight> flights_;                     // the last kKept transfers
    Id first_ = 0;                                   // id of flights_.front()
    std::optional<Id> waits_;                        // id of the transfer for which the rank waits
    std::chrono::steady_clock::time_point since_{};  // time at which the wait for waits_ began
    std::int64_t beat_ = 0;                          // number of publications so far
    std::optional<Look> look_;
    std::optional<std::pair<Id, std::string>> explained_;
    std::thread thread_;
};

}  // namespace roll::train
