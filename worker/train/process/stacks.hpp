// Writes the stacks of all threads on a signal, to show where a rank hangs.
#pragma once

namespace roll::train {

// Makes SIGUSR1, from this call on, write the stack of every thread of this process to stderr,
// which is the rank's log. Call it before other threads start, because they must inherit the
// blocked signal.
void dump_stacks_on_signal();

}  // namespace roll::train
