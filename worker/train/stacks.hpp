// Writes the stacks of all threads on demand, to show where a rank hangs.
#pragma once

namespace roll::train {

// From here on, SIGUSR1 writes the stack of every thread of this process to stderr, which is the
// rank's log. Call it before other threads start: they must inherit the blocked signal.
void dump_stacks_on_signal();

}  // namespace roll::train
