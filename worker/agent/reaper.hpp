// A process that outlives a killed roll-worker and its killed guards. It has its own session and
// name, so what kills roll-worker by name does not reach it. Once roll-worker and all guards have
// ended it kills what they left and tells rolld, as the next roll-worker would.
//
// Its stdin is a pipe that roll-worker and all guards hold open. Lines on it: "dismissed" from a
// roll-worker that ends in order, "clean PID STARTED" from a guard below which nothing is left.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/process.hpp"
#include "worker/agent/run_directory.hpp"

namespace roll::agent {

// roll-worker's side.
class Reaper {
  public:
    // None: guards get no pipe.
    Reaper() = default;
    // arguments: the program and its arguments that make a reaper.
    explicit Reaper(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

    // Starts the process if there is none, or if it has ended. At most one start a second.
    void keep(Instant now);
    // The end that guards inherit; -1: none.
    int descriptor() const { return pipe_.get(); }
    pid_t pid() const { return pid_; }
    // This roll-worker has told rolld all that there is to tell.
    void dismiss();

  private:
    std::vector<std::string> arguments_{};
    io::Descriptor pipe_{};
    pid_t pid_ = 0;
    Instant started_{-Millis{1 << 20}};
};

// The guard's side: nothing is left below this process.
void say_clean(int descriptor);

struct LastWords {
    bool dismissed = false;
    std::set<ProcessName> clean{};  // guards
};
// The reaper's side: blocks until roll-worker and its guards have ended.
LastWords await_last_words(int descriptor);

}  // namespace roll::agent
