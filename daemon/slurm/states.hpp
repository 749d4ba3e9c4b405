// Slurm's job states, as squeue writes them, in the few classes that matter to a pilot.
#pragma once

#include <string_view>

namespace roll::slurm {

// Pending: no node works for it yet, or no longer. Running: its processes may run. Ending: they are
// being ended. Ended: none is left. Unknown: a state that no release up to 26.05 writes; it says
// nothing.
enum class Phase { Pending, Running, Ending, Ended, Unknown };

// Of "RUNNING", "CANCELLED by 1000", "COMPLETING", the compact "R", ... Flags that go with another
// state (24.05 up may join them: "RUNNING,SIGNALING") yield to the base state, which comes first.
Phase phase_of(std::string_view state);

// Whether an ended job did what it was asked: it ended by itself with 0, or somebody took it back.
bool ended_well(std::string_view state);

// Whether it ended because Slurm lost a node of it.
bool lost_its_node(std::string_view state);

// Of a node's state, as scontrol writes it ("DOWN*", "DOWN+DRAIN+NOT_RESPONDING"): Slurm, or
// somebody with the right to say so, holds that the node is gone. Draining ones work on.
bool is_down(std::string_view node_state);

}  // namespace roll::slurm
