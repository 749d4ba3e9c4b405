// Executes a plan's copies: reads blocks of strided source tensors into contiguous rows and casts
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

// Target size of a window in bytes. A window consists of the rows of a tensor that one thread has
// in memory at a time.
constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20U;

using Window = std::function<Result<void>(std::span<const std::byte>)>;

// Writes rows [begin, end) of a target tensor to `to`. Thread-safe: several threads may read from
// the same source at once.
void gather_rows(const Source& source, const TargetTensor& target, std::int64_t begin,
                 std::int64_t end, std::byte* to);

// Returns the block [begin, begin + size) of a target tensor as a target tensor of its own. Only
// the block's elements are read from the source. Requires Making::Copies. Pure.
TargetTensor block_of(const TargetTensor& target, const Shape& begin, const Shape& size);

// Returns the number of bytes that are read from the source's tensors to make a target tensor.
// Pure.
std::int64_t bytes_read(const Source& source, const TargetTensor& target);

// Releases the mapped pages that hold `bytes`. The kernel may then reuse their memory. If the pages
// are needed again, the kernel reads them from the file.
void release_pages(std::span<const std::byte> bytes);

// Releases the mapped pages of the source tensors from which a target tensor was made.
void release(const Source& source, const TargetTensor& target);

// Passes the bytes of a target tensor that consists of copies (Making::Copies) to `write`, in order
// and window by window. Then releases the source's mapped pages.
Result<void> gather_copies(const Source& source, const TargetTensor& target, const Window& write);

// Compares two blocks of the source's tensors. Fails with Corrupt if any bit differs; the message
// names both tensors.
Result<void> compare(const Source& source, const Comparison& comparison);

}  // namespace roll::convert
