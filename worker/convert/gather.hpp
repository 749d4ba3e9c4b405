// Carries out a plan's copies: reads boxes out of strided sources into contiguous rows, casting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan.hpp"

namespace roll::convert {

// How many rows of a tensor are held at a time, so that a window stays near this size.
constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20U;

using Window = std::function<Result<void>(std::span<const std::byte>)>;

// Rows [begin, end) of a target tensor, straight to where they belong. Several threads may read
// parts of one source at once.
void gather_rows(const Source& source, const TargetTensor& target, std::int64_t begin,
                 std::int64_t end, std::byte* to);

// Gives the pages of a mapped file that the bytes lie in back to the kernel, which reads them again
// if need be.
void release_pages(std::span<const std::byte> bytes);

// Gives the mapped pages that the target was read from back to the kernel.
void release(const Source& source, const TargetTensor& target);

// Hands the target tensor's bytes to `write` in order, window by window, and gives the source's
// mapped pages back to the kernel afterwards.
Result<void> gather(const Source& source, const TargetTensor& target, const Window& write);

// Corrupt names both places if they differ in any bit.
Result<void> compare(const Source& source, const Comparison& comparison);

}  // namespace roll::convert
