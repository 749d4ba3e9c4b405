// Runs the commands of `train.hooks` on rank 0: at the start, every N steps, after a checkpoint was
// recorded, after a validation, and at the end.
//
// A hook is a child process with a process group of its own. It inherits the rank's environment
// and log. roll-worker kills it with the attempt, because it is a descendant of the attempt. A
// thread per running hook enforces the time limit, so a hook delays no step unless its `wait` is
// set. A hook that is due while it still runs is left out, with a note in the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/rank.hpp"

namespace roll::train {

struct Hook {
    std::vector<std::string> command;
    std::chrono::milliseconds timeout{60'000};
    bool stops = false;      // a failed hook ends the job
    bool waits = false;      // training waits for the hook
    std::int64_t every = 0;  // only for `step`
};

// Reads `train.hooks` of a document that parse_job() accepted.
std::map<std::string, Hook, std::less<>> read_hooks(std::string_view document);

// Values for the environment of a hook.
struct HookFacts {
    std::int64_t step = 0, steps = 0, tokens = 0;
    std::optional<double> loss{}, valid_loss{};
    std::string checkpoint{};     // directory of a recorded checkpoint
    std::optional<int> status{};  // exit status of the rank
};

class Hooks {
  public:
    // Runs nothing on ranks other than 0.
    Hooks(const protocol::Launch& launch, int rank);
    // Kills the hooks that still run.
    ~Hooks();
    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

    bool has(std::string_view name) const { return hooks_.contains(name); }
    // Runs the hook `name` if the job has one.
    void run(std::string_view name, const HookFacts& facts);
    // Runs the hook `step` if the step is a multiple of its `every`.
    void step_done(const HookFacts& facts);
    // Takes note of hooks that have ended. Never blocks.
    void check();
    // Returns a sentence if a hook with `on_fail: stop` has failed, else an empty text. All ranks
    // must then end at the same step.
    const std::string& failure() const { return failure_; }
    // Waits for the running hooks, then does what check() does.
    void finish();

  private:
    struct Running;
    void conclude(const Running& running);

    std::map<std::string, Hook, std::less<>> hooks_;
    std::map<std::string, std::unique_ptr<Running>, std::less<>> running_;
    std::string failure_;
    std::vector<std::string> environment_;  // of this process, with the job and its directories
};

}  // namespace roll::train
