// Several processes, on nodes that share a file system, write one target together: all make the
// same plan, and each writes some of its files whole. What they say to each other are small files
// in the staging directory, one of each process, written anew a few times a second.
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
    int index = 0;    // 0 stages and publishes the target
    int count = 1;    // 1: alone
    std::string run;  // drawn anew for each run and the same in all of its processes

    bool alone() const { return count == 1; }
    bool leads() const { return index == 0; }
};

// Whether this process has the plan's file number i. The largest file goes to whoever has the
// least.
std::vector<bool> own_files(const Plan& plan, const Part& part);

// How far a process is. In each phase all processes work; a phase is entered when everybody, or
// (Whole) the first, has said that the one before is done.
enum class Phase { Writing, Written, Whole, Verified };

class Meeting {
  public:
    using Stopped = std::function<bool()>;

    // Nobody to meet.
    Meeting() = default;
    // Of process 0: the others may begin. Of another: waits until process 0 has staged the target.
    // Unavailable: stopped, or nothing was heard of process 0 for five minutes.
    static Result<Meeting> join(const std::filesystem::path& staging, const Part& part,
                                const Stopped& stopped);

    // The others hear it soon.
    void say(Phase phase);
    void say(std::int64_t bytes);        // that this process has written
    void leave(const std::string& why);  // without a target; process 0 waits until all have left

    // Process 0 waits for all others, another one for process 0. Unavailable: stopped, one of them
    // has ended (and why), or says nothing for a minute.
    Result<void> wait_for(Phase phase, const Stopped& stopped);

    Result<void> trouble() const;  // one has ended without a target, or is silent: stop
    std::int64_t bytes() const;    // that all others have written; of process 0

    // All is said; process 0 removes the files.
    Result<void> end();

  private:
    class Speaker;
    std::shared_ptr<Speaker> speaker_;
};

}  // namespace roll::convert
