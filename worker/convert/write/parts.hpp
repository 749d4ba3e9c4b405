// Lets several processes write one target together. The processes run on nodes with a shared file
// system. All of them make the same plan, and each writes some of the files completely. They
// communicate through small files in the staging directory: each process rewrites its own small
// file a few times a second.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

struct Part {
    int index = 0;    // number of this process; process 0 stages and publishes the target
    int count = 1;    // number of processes; 1: a single process
    std::string run;  // name of the run; unique, and the same in all processes of the run

    bool alone() const { return count == 1; }
    bool leads() const { return index == 0; }
};

// Returns, for each file of the plan, true if this process writes the file. The files are assigned
// from the largest to the smallest, each to the process with the fewest bytes so far.
std::vector<bool> own_files(const Plan& plan, const Part& part);

// The stage that a process has completed. Written: the process wrote its own files. Whole: the
// target has all files; process 0 announces this after all processes announced Written. Verified:
// the process compared its share of the target with the source.
enum class Phase { Writing, Written, Whole, Verified };

class Meeting {
  public:
    using Stopped = std::function<bool()>;

    // Makes the Meeting of a conversion that has only one process. All waits then return at once.
    Meeting() = default;
    // Connects to the other processes. Process 0 tells the other processes to begin. The other
    // processes wait until process 0 has created the staging directory. Fails with Unavailable if
    // stopped, or if process 0 sends nothing for five minutes.
    static Result<Meeting> join(const std::filesystem::path& staging, const Part& part,
                                const Stopped& stopped);

    // Announces the phase that this process has completed. The other processes read the phase soon
    // after.
    void say(Phase phase);
    void say(std::int64_t bytes);  // announces the number of bytes that this process has written
    // Announces that this process ends without completing the target, for the reason `why`. Process
    // 0 then waits for the other processes.
    void leave(const std::string& why);

    // Waits until the phase is announced. Process 0 waits for all other processes, and the other
    // processes wait for process 0. Fails with Unavailable if stopped, if an awaited process has
    // ended (the message has its reason), or if an awaited process sends nothing for a minute.
    Result<void> wait_for(Phase phase, const Stopped& stopped);

    // Fails with Unavailable if another process ended before the target was complete, or if another
    // process has stopped responding.
    Result<void> trouble() const;
    // Returns the bytes written by all other processes. Only process 0 may call this function.
    std::int64_t bytes() const;

    // Ends the communication. Process 0 then removes the files through which the processes
    // communicate.
    Result<void> end();

  private:
    class Speaker;
    std::shared_ptr<Speaker> speaker_;
};

}  // namespace roll::convert
