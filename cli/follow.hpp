// Watching a job until it is over.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <vector>

#include "cli/context.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {

// Looks at a job when something happened to it: rolld holds each answer back until then.
class JobWatch {
  public:
    JobWatch(Daemon& daemon, std::uint64_t id) : daemon_(daemon), id_(id) {}

    // The job as `show` tells it: at once the first time, then after its next event, or after
    // `at_most` if nothing happens.
    Result<Json> look(std::chrono::milliseconds at_most);

  private:
    Daemon& daemon_;
    std::uint64_t id_;
    std::int64_t seen_ = 0;  // sequence of the newest event that was heard of
    bool looked_ = false;
};

// While this object lives, Ctrl-C ends the program after a note on stderr: the jobs go on, and how
// to come back to them. At most one lives at a time.
class InterruptNote {
  public:
    explicit InterruptNote(const std::vector<std::uint64_t>& ids);
    InterruptNote(const InterruptNote&) = delete;
    InterruptNote& operator=(const InterruptNote&) = delete;
    ~InterruptNote();

  private:
    struct sigaction before_ {};
};

// Returns the job once it is over. Prints for people why it did not end well.
Result<Json> await_job(const Context& context, Daemon& daemon, std::uint64_t id);

// The same, printing how it goes: one line that is overwritten on a terminal, else a line when the
// state or the progress changed.
Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id);

// The highest exit status of the jobs, each followed or awaited; they are appended to `ended`.
Result<int> watch_jobs(const Context& context, Daemon& daemon,
                       const std::vector<std::uint64_t>& ids, bool follow, Json& ended);

}  // namespace roll::cli
