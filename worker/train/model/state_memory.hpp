// Memory for zeroed tensors.
//
// The state of an optimizer may be outside the memory of the device (train.optimizer.offload). On a
// CPU, each tensor is in a file that is mapped into memory. The kernel writes changed pages to
// the file when memory is short, and reads the pages when they are used again. An update holds only
// a window of a tensor in the process's memory: callers release each part with let_go() after use.
// The functions do nothing for tensors that are not in a file. The functions may be called on any
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

namespace roll::train {

enum class Pages { Huge, Small };

// Returns a tensor of `size` zeros. On a CPU, the kernel allocates each page at its first touch, as
// a huge page if possible. Therefore, no page is cleared twice, and the cost is shared by the
// threads that first write to the tensor. If only few and scattered parts of the tensor are used,
// Pages::Small saves memory, because a huge page has 2 MiB.
at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options,
                      Pages pages = Pages::Huge);

// Returns a tensor of `size` zeros for optimizer state. Throws RankFailure or OutOfMemory.
using StateMemory = std::function<at::Tensor(std::int64_t size, const at::TensorOptions& options)>;

// Returns how many parameters of a chunk, from the first on, have their state outside the memory of
// the device.
struct ParameterSpec;
using OffloadedCount = std::function<std::size_t(std::span<const ParameterSpec>)>;

// Returns memory in files on the file system of `folder`. A file has no name in the folder, so it
// disappears with the process. The disk space of the file is reserved when the file is made. Throws
// RankFailure(refused) if there is no space.
StateMemory file_memory(const std::filesystem::path& folder);

bool is_in_file(const at::Tensor& tensor);

// Returns the number of elements of `state` that an update should use before it calls let_go(). If
// `state` is not in a file, returns the number of all elements.
std::int64_t window_of(const at::Tensor& state);

// Begins to read the `count` elements of each tensor that follow the elements [begin, begin +
// count). Undefined tensors are skipped.
void fetch_after(std::span<const at::Tensor> states, std::int64_t begin, std::int64_t count);

// Takes the elements [begin, begin + count) of each tensor out of the process's memory, and begins
// to write them to the file. The elements can still be used. Undefined tensors are skipped.
void let_go(std::span<const at::Tensor> states, std::int64_t begin, std::int64_t count);
void let_go(const at::Tensor& state);

// Copies all elements. If one of the tensors is in a file, copies window by window and calls
// let_go() for each window; both tensors must then be contiguous.
void copy_state(const at::Tensor& to, const at::Tensor& from);

}  // namespace roll::train
