// The name that a roll-worker gives its process in its heartbeats. By this name, `rollctl up`
// recognizes its worker.
#pragma once

#include <string>

#include <sys/types.h>

namespace roll::io {

// Returns "host HOST, process PID", for a process on this machine.
std::string process_label(pid_t pid);

}  // namespace roll::io
