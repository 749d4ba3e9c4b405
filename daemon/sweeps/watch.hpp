// Watches the sweeps that use successive halving. Once a second, reads the metrics of the sweeps'
// trials and reports the trials that can no longer be among the best (common/spec/job/sweep.hpp).
//
// Watch stores nothing on disk. After a restart of rolld, it finds the sweeps in State and reads
// the metrics from their beginning, so it stops the same trials. A separate thread reads the files,
// because a volume that hangs must not block rolld's main loop. The caller calls all members on the
// thread that runs the io_context.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/core/state/state.hpp"
#include "daemon/sweeps/cursor.hpp"

namespace roll::sweeps {

// A trial to cancel, and the reason.
struct Loser {
    JobId job;
    std::string reason;
};

class Watch {
  public:
    // `state` must outlive this object. `stop` is called with trials that have not ended.
    Watch(boost::asio::io_context& io, const core::State& state,
          std::function<void(std::vector<Loser>)> stop,
          std::chrono::milliseconds pause = std::chrono::seconds(1));
    // Does not wait for a thread that still reads files. The results of that thread are dropped.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Records the sweeps among the jobs that were submitted since the last call. The cost depends
    // only on the number of these jobs.
    void note_new();
    std::size_t count() const { return sweeps_.size(); }
    void cancel();  // cancels the timer

  private:
    struct Trial {
        Cursor cursor;
        bool finished = false;  // true if the job has ended, and its file was read to the end
    };
    struct Sweep {
        spec::Halving halving;
        std::size_t trials = 0;
        std::vector<std::int64_t> rungs{};
        std::map<JobId, Trial> started{};  // trials that have started, by job
    };
    // A trial whose file the thread reads. The thread returns the trial with the new position in
    // the file.
    struct Work {
        JobId sweep;
        JobId job;
        Cursor cursor;
        bool over = false;
        bool at_end = false;
    };
    struct Home;

    void wait();
    void look();
    void take(std::vector<Work> done);
    bool add_work(JobId first, Sweep& sweep, std::vector<Work>& work) const;
    void judge(JobId first, const Sweep& sweep, std::vector<Loser>& losers) const;

    const core::State& state_;
    std::function<void(std::vector<Loser>)> stop_;
    std::chrono::milliseconds pause_;
    boost::asio::steady_timer timer_;
    std::shared_ptr<Home> home_;
    std::map<JobId, Sweep> sweeps_{};  // sweeps, by the first job of the array
    JobId next_{};                     // note_new() has seen all jobs with lower ids
    JobId last_array_{};
    bool waiting_ = false;  // true while the timer runs or the thread reads
};

}  // namespace roll::sweeps
