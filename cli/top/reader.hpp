// Reads data from rolld and from the files of jobs. Reads in a separate thread, so that `rollctl
// top` handles keys at once even if rolld or a volume is slow.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cli/client/daemon.hpp"
#include "cli/show/files_of_job.hpp"
#include "cli/top/model.hpp"

namespace roll::cli::top {

// Reads the data that a view needs. Blocks. Not thread-safe.
class Reading {
  public:
    explicit Reading(Daemon daemon) : daemon_(std::move(daemon)) {}

    // Waits up to `wait_ms` for new events, then reads all data that `wanted` requests. Keeps the
    // old data and fails if rolld does not answer.
    Result<void> look(const Wanted& wanted, int wait_ms);
    // Cancels jobs, and stores a text about the result in the data.
    void cancel(const std::string& selector);
    Data& data() { return data_; }

  private:
    Result<void> read_events(int wait_ms);
    Result<void> read_jobs(const Wanted& wanted);
    Result<void> read_open(const Wanted& wanted);
    void read_log(const Wanted& wanted);
    void read_curves();
    void sample_use();
    template <class Args>
    Result<Json> ask(Args args) {
        return daemon_.ask_patiently(std::move(args), std::chrono::seconds(1));
    }

    Daemon daemon_;
    Data data_{};
    std::int64_t seen_ = 0;                  // number of the newest event that was read
    std::map<std::uint64_t, Tail> tails_{};  // metrics of running jobs, by job id
    std::optional<Tail> whole_{};            // all metrics of the open job
    std::uint64_t whole_of_ = 0;             // id of the open job
    std::optional<Tail> log_{};
    std::chrono::steady_clock::time_point sample_due_{};
};

class Reader {
  public:
    // Starts the thread. The thread calls `wake` after each change of the data.
    Reader(Reading reading, std::function<void()> wake);

    std::shared_ptr<const Data> data();
    void want(const Wanted& wanted);
    void cancel(std::string selector);

  private:
    struct Shared {
        std::mutex mutex;
        std::shared_ptr<const Data> data;
        Wanted wanted;
        std::deque<std::string> to_cancel;
    };
    static void run(const std::shared_ptr<Shared>& shared, Reading reading,
                    const std::function<void()>& wake);

    std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace roll::cli::top
