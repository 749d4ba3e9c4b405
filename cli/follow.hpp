// Watches jobs until they end.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <vector>

#include "cli/context.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {

// Polls a job for changes; rolld delays each reply until the job has a new event.
class JobWatch {
  public:
    JobWatch(Daemon& daemon, std::uint64_t id) : daemon_(daemon), id_(id) {}

    // Returns the reply of `show`. The first call returns at once, each later one after the job's
    // next event or after `at_most`.
    Result<Json> look(std::chrono::milliseconds at_most);

  private:
    Daemon& daemon_;
    std::uint64_t id_;
    std::int64_t seen_ = 0;  // sequence number of the newest event received
    bool looked_ = false;
};

// While this object lives, Ctrl-C prints that the jobs continue and how to watch them again, then
// ends the program. At most one such object may exist.
class InterruptNote {
  public:
    explicit InterruptNote(const std::vector<std::uint64_t>& ids);
    InterruptNote(const InterruptNote&) = delete;
    InterruptNote& operator=(const InterruptNote&) = delete;
    ~InterruptNote();

  private:
    struct sigaction before_ {};
};

// Returns the job once it has ended. Prints the reason of a failure, unless the output is JSON.
Result<Json> await_job(const Context& context, Daemon& daemon, std::uint64_t id);

// Like await_job(), and prints the progress: one line that is overwritten on a terminal, otherwise
// a line whenever the state or the progress changes.
Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id);

// Awaits (or follows) the jobs in turn and appends them to `ended`. Returns the highest exit
// status.
Result<int> watch_jobs(const Context& context, Daemon& daemon,
                       const std::vector<std::uint64_t>& ids, bool follow, Json& ended);

}  // namespace roll::cli
