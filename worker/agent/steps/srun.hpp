// `roll-worker srun` and `roll-worker scontrol`: what a batch script calls as srun and scontrol.
#pragma once

namespace roll::agent {

// Starts a step in the job of the environment. Returns the highest exit status of its tasks.
int run_srun(int argc, char** argv);

// Carries out `scontrol show hostnames [LIST]`, which scripts use to find their first node. Fails
// for any other command.
int run_scontrol(int argc, char** argv);

}  // namespace roll::agent
