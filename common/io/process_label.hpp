// The name that a roll-worker reports for its process in heartbeats. `rollctl up` recognizes the
// worker that it started by this name.
#pragma once

#include <string>

#include <sys/types.h>

namespace roll::io {

// Returns "host HOST, process PID", for a process on this machine.
std::string process_label(pid_t pid);

}  // namespace roll::io
