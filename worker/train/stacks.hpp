// Stacks of all threads on demand: what a rank does that no longer gets on.
#pragma once

namespace roll::train {

// From here on SIGUSR1 writes the stack of every thread of this process to stderr, which is the
// rank's log. Call it before other threads start, so that they leave the signal to ours.
void dump_stacks_on_signal();

}  // namespace roll::train
