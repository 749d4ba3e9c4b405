// The options of srun, as roll-worker's srun reads them. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/agent/steps/step.hpp"

namespace roll::agent {

struct SrunOptions {
    int tasks = 0;  // number of tasks; 0: not given
    int nodes = 0;
    int tasks_per_node = 0;
    int relative = 0;               // number of the first node that the step may use
    std::vector<std::string> only;  // names of the nodes to use; empty: any
    std::vector<std::string> without;
    bool cyclic = false;
    bool label = false;
    // option --kill-on-bad-exit: the step ends if one of its tasks fails
    bool unequal_exit_kills = false;
    std::string output;
    std::string error;
    std::string directory;
    std::string export_names = "ALL";
    std::optional<Container> container;  // container of the tasks, from the options of pyxis
    std::vector<std::string> words;
};

// Reads the arguments of srun, without its name. Fails with InvalidArgument for an option that
// this srun does not have.
Result<SrunOptions> read_srun(const std::vector<std::string>& arguments);

// The nodes and numbers of tasks in a job's environment.
struct StepSite {
    std::vector<std::string> nodes;
    int tasks = 0;           // number of tasks, SLURM_NTASKS of the batch script; 0: not set
    int tasks_per_node = 0;  // number of tasks per node, SLURM_NTASKS_PER_NODE
};

// Plans a step: its nodes and tasks. Fails with InvalidArgument if the job has too few nodes.
Result<Step> plan_step(const SrunOptions& options, const StepSite& site);

// Returns the names in a list of nodes such as "n[1-3,7],m1"; empty if the list is malformed.
std::vector<std::string> expand_hosts(const std::string& list);

}  // namespace roll::agent
