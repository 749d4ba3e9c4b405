// The reaper: a process that outlives a killed roll-worker and its killed guards. The reaper has
// its own session and name, so that killing roll-worker by name does not reach it. Once roll-worker
// and all guards have ended, the reaper kills the processes that are left of the attempts, and
// reports to rolld that the attempts have ended. The next roll-worker would otherwise do this.
//
// The reaper's stdin is a pipe that roll-worker and all guards hold open. Lines on the pipe:
// "dismissed" from a roll-worker that ends normally, "clean PID STARTED" from a guard with no
// process left below it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/process.hpp"
#include "worker/agent/process/run_directory.hpp"

namespace roll::agent {

// roll-worker's side of the reaper: starts the process and holds its pipe.
class Reaper {
  public:
    // Makes a Reaper without a process: guards get no pipe.
    Reaper() = default;
    // `arguments` is the command line of the reaper process.
    explicit Reaper(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

    // Starts the reaper if it is not running, at most once per second.
    void keep(Instant now);
    // Returns the end of the pipe that guards inherit; -1 without a reaper.
    int descriptor() const { return pipe_.get(); }
    pid_t pid() const { return pid_; }
    // Tells the reaper to end without reporting, because rolld already knows all ends.
    void dismiss();

  private:
    std::vector<std::string> arguments_{};
    io::Descriptor pipe_{};
    pid_t pid_ = 0;
    Instant started_{-Millis{1 << 20}};
};

// Called by a guard: reports through `descriptor`, the pipe, that no process is left below the
// guard.
void say_clean(int descriptor);

struct LastWords {
    bool dismissed = false;
    std::set<ProcessName> clean{};  // guards that reported "clean"
};
// Called by the reaper: blocks until roll-worker and its guards have ended. Returns what they wrote
// to the pipe.
LastWords await_last_words(int descriptor);

}  // namespace roll::agent
