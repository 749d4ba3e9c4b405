// How the process deals with memory, and how much it has.
#pragma once

#include <cstdint>

namespace roll::train {

// From now on freed memory stays with the process, for tensors of any size to come: every step
// allocates what the one before freed, and to fault its pages in again costs a tenth of it. For a
// program's start; the tensors of all threads are affected.
void keep_freed_memory();

// Bytes, as the kernel counts them; 0 where it does not tell.
struct ProcessMemory {
    std::int64_t resident = 0;
    std::int64_t peak = 0;
};
ProcessMemory process_memory();

// Bytes of a GPU that this process's tensors take, now and at most.
struct DeviceMemory {
    std::int64_t allocated = 0;
    std::int64_t peak = 0;
};

}  // namespace roll::train
