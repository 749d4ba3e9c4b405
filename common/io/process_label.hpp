// How a roll-worker names its process in its heartbeats. `rollctl up` compares the name.
#pragma once

#include <string>

#include <sys/types.h>

namespace roll::io {

// Returns "host HOST, process PID", for a process on this machine.
std::string process_label(pid_t pid);

}  // namespace roll::io
