// The name of a roll-worker's process in its heartbeats. By this name, `rollctl up` recognizes the
// worker that it has started.
#pragma once

#include <string>

#include <sys/types.h>

namespace roll::io {

// Returns "host HOST, process PID", for a process on this machine.
std::string process_label(pid_t pid);

}  // namespace roll::io
