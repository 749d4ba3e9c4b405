// A step: the tasks that one srun starts on the nodes of its job. The functions are pure, except
// those that read and write the step's file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/agent/process/container.hpp"

namespace roll::agent {

// One process of a step.
struct Task {
    int number = 0;        // number of the task in the step, SLURM_PROCID
    int node = 0;          // number of the node in the step, SLURM_NODEID
    int local = 0;         // number of the task on its node, SLURM_LOCALID
    std::string output{};  // path of the file for stdout; empty: a file of the step's folder
    std::string error{};   // path of the file for stderr; empty: a file of the step's folder
    friend bool operator==(const Task&, const Task&) = default;
};

struct Step {
    int number = 0;
    std::vector<std::string> words;  // the program and its arguments
    // environment of the tasks, "NAME=value", without the variables of secrets
    std::vector<std::string> environment;
    std::string directory;
    std::optional<Container> container{};  // the container in which each task runs
    std::vector<std::string> nodes;        // names of the step's nodes
    std::vector<int> job_nodes;            // the step's nodes, as node numbers of the job
    std::vector<Task> tasks;               // tasks in ascending order of number
    friend bool operator==(const Step&, const Step&) = default;
};

// Distributes `tasks` tasks over `nodes` nodes, and returns the number of tasks of each node. If
// the division leaves a remainder, the first nodes have one task more.
std::vector<int> spread(int tasks, int nodes);
// Formats numbers as SLURM_TASKS_PER_NODE does: "2(x3),1".
std::string repeated_text(const std::vector<int>& numbers);
// Returns the tasks. Block distribution fills one node after the other; cyclic distribution gives
// each node one task in turn.
std::vector<Task> place_tasks(const std::vector<int>& per_node, bool cyclic);

// Returns the number of the task's node in the job.
int job_node(const Step& step, const Task& task);

// Returns the variables that the step sets for a task, such as SLURM_PROCID.
std::vector<std::string> task_variables(const Step& step, const Task& task);

// Returns `base` with the variables `more`. If a variable is in both, the value in `more` is used.
std::vector<std::string> merged(std::vector<std::string> base,
                                const std::vector<std::string>& more);
// Returns the variables whose names are not in `names`.
std::vector<std::string> without(const std::vector<std::string>& variables,
                                 const std::vector<std::string>& names);
std::string value_in(const std::vector<std::string>& environment, const std::string& name);

// Return paths in `folder`, the folder of an attempt's steps.
// - ended_file(): a file that exists once the batch script has ended.
// - signal_file(): a file that exists once the signal of --signal is due, with the signal's number.
// - step_signal_file(): "COUNT NUMBER", the count of signals sent to the step, and the last one.
std::string step_folder(const std::string& folder, int number);
std::string task_file(const std::string& folder, int step, int task, const char* suffix);
std::string ended_file(const std::string& folder);
std::string signal_file(const std::string& folder);
std::string step_signal_file(const std::string& folder, int step);

Result<void> write_step(const std::string& folder, const Step& step);
// Reads the file of a step. Returns nullopt if the step has no file yet.
Result<std::optional<Step>> read_step(const std::string& folder, int number);

}  // namespace roll::agent
