#include "worker/train/pipeline/memory.hpp"

#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include <malloc.h>

namespace roll::train {

void keep_freed_memory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

// getrusage's peak would not do: it is that of whatever ran in the process before exec, too.
ProcessMemory process_memory() {
    ProcessMemory memory;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        long long kib = 0;
        if (std::sscanf(line.c_str(), "VmHWM: %lld", &kib) == 1) memory.peak = kib * 1024;
        if (std::sscanf(line.c_str(), "VmRSS: %lld", &kib) == 1) memory.resident = kib * 1024;
    }
    return memory;
}

}  // namespace roll::train
