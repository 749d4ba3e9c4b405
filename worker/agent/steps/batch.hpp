// `roll-worker batch`: runs a batch script on the first node of its job.
#pragma once

namespace roll::agent {

// Runs the script that the arguments name, and returns its exit status. If a signal killed the
// script, ends this process by the same signal. SIGTERM reaches the script directly, because the
// script and this process are in one process group.
int run_batch(int argc, char** argv);

// `roll-worker steps`: starts the tasks of srun on another node of the job, until the batch script
// has ended.
int run_steps(int argc, char** argv);

}  // namespace roll::agent
