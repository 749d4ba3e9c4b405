// Settings and measurements of the process's memory.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace roll::train {

// Thrown if the system has no memory for a tensor.
class OutOfMemory : public std::bad_alloc {
  public:
    // `bytes`: the requested size; 0: unknown. `during`: what the rank was doing; empty: unknown.
    explicit OutOfMemory(std::size_t bytes, std::string during = {})
        : bytes_(bytes),
          during_(std::move(during)) {}
    std::size_t bytes() const { return bytes_; }
    const std::string& during() const { return during_; }
    const char* what() const noexcept override { return "out of memory"; }

  private:
    std::size_t bytes_;
    std::string during_;
};

// From now on, keeps freed memory in the process for later tensors. Otherwise, each step would
// allocate the memory that the previous step freed, and page faults would take a tenth of the step.
// Call this function at program start; it applies to the tensors of all threads.
void keep_freed_memory();

// Memory of the process in bytes, as the kernel counts it; 0 if unknown.
struct ProcessMemory {
    std::int64_t resident = 0;
    std::int64_t peak = 0;
};
ProcessMemory process_memory();

// Memory of this process's tensors on a GPU, in bytes: the current amount, and the peak so far.
struct DeviceMemory {
    std::int64_t allocated = 0;
    std::int64_t peak = 0;
};

}  // namespace roll::train
