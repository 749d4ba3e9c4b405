// Settings and measurements of the process's memory.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <numeric>
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
// Call this function at program start. Its effect is on the tensors of all threads.
void keep_freed_memory();

// The use of a tensor's memory. Gathered: weights of other ranks. Exchange: buffers in which ranks
// send and receive gradients and weights. Value: all other tensors.
enum class TensorUse { Value, Gathered, Exchange };
inline constexpr std::size_t kTensorUses = 3;

// Tensors that this thread allocates while this object exists are for `use`.
class TensorUseScope {
  public:
    explicit TensorUseScope(TensorUse use);
    ~TensorUseScope();
    TensorUseScope(const TensorUseScope&) = delete;
    TensorUseScope& operator=(const TensorUseScope&) = delete;

  private:
    TensorUse before_;
};

// Bytes of the tensors on the CPU, by their use. Memory that was mapped by lazy_zeros() does not
// count. If keep_freed_memory() was not called, all numbers are 0.
struct TensorBytes {
    std::array<std::int64_t, kTensorUses> of{};
    std::int64_t total() const { return std::accumulate(of.begin(), of.end(), std::int64_t{0}); }
};
TensorBytes tensors_now();
// Returns the value that tensors_now() had when the total was highest since the last call of
// reset_tensor_peak().
TensorBytes tensors_at_peak();
void reset_tensor_peak();

// Memory of the process in bytes, as the kernel counts it; 0 if unknown.
struct ProcessMemory {
    std::int64_t resident = 0;
    std::int64_t peak = 0;
};
ProcessMemory process_memory();

// Returns the memory in bytes that programs on this machine could still use; 0 if unknown.
std::int64_t free_memory();

// Memory of this process's tensors on a GPU, in bytes: the current amount, and the peak so far.
struct DeviceMemory {
    std::int64_t allocated = 0;
    std::int64_t peak = 0;
};

}  // namespace roll::train
