// Writes the stacks of all threads when asked, to show where a rank hangs.
#pragma once

namespace roll::train {

// From this call on, SIGUSR1 writes the stack of every thread of this process to stderr, which is
// the rank's log. Call it before other threads start, because they must inherit the blocked signal.
void dump_stacks_on_signal();

}  // namespace roll::train
