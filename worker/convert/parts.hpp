// Several processes, on nodes with a shared file system, write one target together. All make the
// same plan; each writes some of the files completely. They communicate by small files in the
// staging directory: each process rewrites its own a few times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan.hpp"

namespace roll::convert {

struct Part {
    int index = 0;    // part 0 stages and publishes the target
    int count = 1;    // 1: a single process
    std::string run;  // unique per run, the same in all of its processes

    bool alone() const { return count == 1; }
    bool leads() const { return index == 0; }
};

// Returns for each file of the plan if this process writes it. Assigns the largest file first, to
// the process with the fewest bytes.
std::vector<bool> own_files(const Plan& plan, const Part& part);

// The progress of a process; all processes work in each phase. A phase begins once every process,
// or for Whole the first, has announced the previous one.
enum class Phase { Writing, Written, Whole, Verified };

class Meeting {
  public:
    using Stopped = std::function<bool()>;

    // For a single process: every wait returns at once.
    Meeting() = default;
    // Process 0 tells the others to begin. Other processes wait until process 0 has staged the
    // target. Fails with Unavailable if stopped, or if process 0 sends nothing for five minutes.
    static Result<Meeting> join(const std::filesystem::path& staging, const Part& part,
                                const Stopped& stopped);

    // Announces the phase; the others read it soon.
    void say(Phase phase);
    void say(std::int64_t bytes);        // announces the bytes that this process has written
    void leave(const std::string& why);  // ends without a target; process 0 waits for all

    // Process 0 waits for all others, the others for process 0. Fails with Unavailable if stopped,
    // if one of them has ended (with its reason), or if one sends nothing for a minute.
    Result<void> wait_for(Phase phase, const Stopped& stopped);

    Result<void> trouble() const;  // Unavailable if one ended without a target or is silent
    std::int64_t bytes() const;    // written by all others; requires process 0

    // Ends the communication; process 0 removes the files.
    Result<void> end();

  private:
    class Speaker;
    std::shared_ptr<Speaker> speaker_;
};

}  // namespace roll::convert
