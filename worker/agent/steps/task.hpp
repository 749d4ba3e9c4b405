// The running tasks of a step on one node.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "worker/agent/steps/step.hpp"

namespace roll::agent {

// Returns the exit status of a process as a shell reports it: 128+n for signal n.
int shell_status(int wait_status);

// Tasks that this process started.
class RunningTasks {
  public:
    // Starts a task. `environment` has all variables of the task except those that task_variables()
    // adds. If `inherits` is true, the task has this process's standard streams. Otherwise its
    // output goes to its files.
    Result<void> start(const std::string& folder, const Step& step, const Task& task,
                       const std::vector<std::string>& environment, bool inherits);
    struct Ended {
        int step = 0;
        int task = 0;
        int status = 0;  // exit status as shell_status() returns it
    };
    std::vector<Ended> reap();                // reaps the tasks that have ended
    void signal(int step, int number) const;  // signals the tasks of a step
    bool none() const { return pids_.empty(); }
    std::set<int> steps() const;  // returns the steps with running tasks, as step numbers

  private:
    struct Place {
        int step = 0;
        int task = 0;
    };
    std::map<pid_t, Place> pids_{};
};

}  // namespace roll::agent
