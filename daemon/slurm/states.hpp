// Slurm's job states as squeue prints them, reduced to the phases that matter for an allocation.
#pragma once

#include <string_view>

namespace roll::slurm {

// Pending: no node runs the job now, because it has not started or was requeued. Running: its
// processes may run. Ending: its processes are being ended. Ended: no process is left. Unknown: no
// release up to 26.05 prints this state, and callers ignore it.
enum class Phase { Pending, Running, Ending, Ended, Unknown };

// Returns the phase of a state such as "RUNNING", "CANCELLED by 1000", "COMPLETING" or the compact
// "R". The base state comes first; flags joined to it are ignored (from 24.05,
// "RUNNING,SIGNALING").
Phase phase_of(std::string_view state);

// Returns whether the job ended because Slurm lost one of its nodes.
bool lost_its_node(std::string_view state);

// Returns whether a node's state, as scontrol prints it ("DOWN*", "DOWN+DRAIN+NOT_RESPONDING"),
// says that Slurm or an administrator considers the node down. A node that is draining still works.
bool is_down(std::string_view node_state);

}  // namespace roll::slurm
