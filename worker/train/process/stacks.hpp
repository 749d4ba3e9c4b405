// Writes the stacks of all threads on a signal, to show where a rank hangs.
#pragma once

namespace roll::train {

// Installs a handler: from now on, SIGUSR1 makes this process write the stacks of all its threads
// to stderr, the rank's log. Must be called before other threads start, because these threads must
// inherit the signal mask.
void dump_stacks_on_signal();

}  // namespace roll::train
