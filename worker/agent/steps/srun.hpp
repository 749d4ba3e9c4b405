// `roll-worker srun` and `roll-worker scontrol`: the programs that a batch script calls as srun and
// scontrol.
#pragma once

namespace roll::agent {

// Starts a step in the job that the environment variables describe. Returns the highest exit status
// of the step's tasks.
int run_srun(int argc, char** argv);

// Carries out `scontrol show hostnames [LIST]`, which scripts use to find their first node. Fails
// for any other command.
int run_scontrol(int argc, char** argv);

}  // namespace roll::agent
