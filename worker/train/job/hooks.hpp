// Runs the commands of `train.hooks` on rank 0: at the start, every N steps, after a checkpoint was
// recorded, after a validation, and at the end.
//
// A hook is a child process in its own process group. The hook inherits the rank's environment and
// log. roll-worker kills the hook together with the attempt, because the hook is a descendant of
// the attempt. Each running hook has a thread that enforces the time limit, so a hook delays a step
// only if its `wait` is set. If a hook is still running when it is due again, the new run is
// skipped, and the log says so.
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
    bool stops = false;      // true: if the hook fails, the job ends
    bool waits = false;      // true: training waits until the hook has ended
    std::int64_t every = 0;  // number of steps between two runs; only for the hook `step`
};

// Reads `train.hooks` of a document that check_job() accepted.
std::map<std::string, Hook, std::less<>> read_hooks(std::string_view document);

// Values that are passed to a hook in environment variables.
struct HookFacts {
    std::int64_t step = 0, steps = 0, tokens = 0;
    std::optional<double> loss{}, valid_loss{};
    std::string checkpoint{};     // directory of a recorded checkpoint
    std::optional<int> status{};  // exit status of the rank
};

class Hooks {
  public:
    // Makes the hooks of the job. On ranks other than 0, this object runs nothing.
    Hooks(const protocol::Launch& launch, int rank);
    // Kills the hooks that are still running.
    ~Hooks();
    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

    bool has(std::string_view name) const { return hooks_.contains(name); }
    // Runs the hook `name` if the job has one.
    void run(std::string_view name, const HookFacts& facts);
    // Runs the hook `step` if the step is a multiple of its `every`.
    void step_done(const HookFacts& facts);
    // Removes the hooks that have ended from the running hooks, and logs or records their failures.
    // Never blocks.
    void check();
    // Returns a sentence if a hook with `on_fail: stop` has failed; otherwise, an empty text. After
    // a failure, all ranks must end at the same step.
    const std::string& failure() const { return failure_; }
    // Waits for the running hooks, and then calls check().
    void finish();

  private:
    struct Running;
    void conclude(const Running& running);

    std::map<std::string, Hook, std::less<>> hooks_;
    std::map<std::string, std::unique_ptr<Running>, std::less<>> running_;
    std::string failure_;
    std::vector<std::string> environment_;  // this process's environment, plus the job's variables
};

}  // namespace roll::train
