// Slurm's job states as printed by squeue, reduced to the phases that matter for a pilot.
#pragma once

#include <string_view>

namespace roll::slurm {

// Pending: no node runs the job, or none does any more. Running: its processes may run. Ending: its
// processes are being ended. Ended: no process is left. Unknown: no release up to 26.05 prints this
// state; it is ignored.
enum class Phase { Pending, Running, Ending, Ended, Unknown };

// Returns the phase of "RUNNING", "CANCELLED by 1000", "COMPLETING", the compact "R" and so on.
// Flags joined to a state (from 24.05, "RUNNING,SIGNALING") are ignored; the base state comes
// first.
Phase phase_of(std::string_view state);

// Returns true if an ended job exited with 0, was cancelled or was preempted.
bool ended_well(std::string_view state);

// Returns true if the job ended because Slurm lost one of its nodes.
bool lost_its_node(std::string_view state);

// Returns true if a node's state ("DOWN*", "DOWN+DRAIN+NOT_RESPONDING", as printed by scontrol)
// says that Slurm or an administrator considers the node down. Draining nodes still work.
bool is_down(std::string_view node_state);

}  // namespace roll::slurm
