// Watches jobs until they have ended.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <vector>

#include "cli/client/context.hpp"
#include "cli/client/daemon.hpp"

namespace roll::cli {

// Exit status for rollctl's own errors in commands that return a job's status.
constexpr int kOwnTrouble = 125;

// Watches a job for changes. rolld answers each request only when the job has a new event.
class JobWatch {
  public:
    JobWatch(Daemon& daemon, std::uint64_t id) : daemon_(daemon), id_(id) {}

    // Returns the reply to `show`. The first call returns at once. Each later call returns after
    // the job's next event, or after the time `at_most`.
    Result<Json> look(std::chrono::milliseconds at_most);

  private:
    Daemon& daemon_;
    std::uint64_t id_;
    std::int64_t seen_ = 0;  // number of the newest event received
    bool looked_ = false;
};

// While this object exists, Ctrl-C prints that the jobs continue and how to watch them again. Then
// Ctrl-C ends the program. Only one such object may exist at a time.
class InterruptNote {
  public:
    explicit InterruptNote(const std::vector<std::uint64_t>& ids);
    InterruptNote(const InterruptNote&) = delete;
    InterruptNote& operator=(const InterruptNote&) = delete;
    ~InterruptNote();

  private:
    struct sigaction before_ {};
};

// Waits until the job has ended, and returns the job. If the job failed and the output is not JSON,
// prints the reason.
Result<Json> await_job(const Context& context, Daemon& daemon, std::uint64_t id);

// Like await_job(), but also prints the progress. On a terminal, the progress is on one line that
// is overwritten. Otherwise a line is printed when the state or the progress changes.
Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id);

// Waits for the jobs one after the other, with follow_job() if `follow` is set, else with
// await_job(). Appends the ended jobs to `ended`. Returns the highest exit status of the jobs.
Result<int> watch_jobs(const Context& context, Daemon& daemon,
                       const std::vector<std::uint64_t>& ids, bool follow, Json& ended);

}  // namespace roll::cli
