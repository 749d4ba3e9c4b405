// Plans a batch script of Slurm (key `sbatch` of a job file): its variables, and the programs that
// run on the nodes of its job. The functions are pure.
#pragma once

#include <string>

#include "common/protocol/worker.hpp"
#include "worker/agent/process/command.hpp"
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/launch_site.hpp"

namespace roll::agent {

// Returns Slurm's variables, with the values that sbatch of Slurm 22.05 gives to a batch script.
// The job ids are the ids of Roll's jobs. In a pilot, ROLL_PILOT_SLURM_JOB_ID has the id of Slurm's
// job.
Environment batch_environment(const protocol::StartOrder& order, const CommandDocument& document,
                              const LaunchSite& site);

// Returns Slurm's variables of a process of a gang, with the values that srun gives to a task. The
// ids are as in batch_environment().
Environment task_environment(const protocol::StartOrder& order, const CommandDocument& document,
                             const LaunchSite& site, int local_rank);

// Replaces the arguments of this node's program in the plan. The first node then runs the script in
// `roll-worker batch`. The other nodes run `roll-worker steps`, which starts the tasks of srun.
// `logs` is the attempt's directory of logs.
void plan_batch(const protocol::StartOrder& order, const CommandDocument& document,
                const LaunchSite& site, const std::string& logs, Program& program);

}  // namespace roll::agent
