// Carries out a plan's copies: reads boxes out of strided sources into contiguous rows, casting.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan.hpp"

namespace roll::convert {

// How many rows of a tensor are held at a time, so that a window stays near this size.
constexpr std::int64_t kWindowBytes = std::int64_t{16} << 20U;

using Window = std::function<Result<void>(std::span<const std::byte>)>;

// Hands the target tensor's bytes to `write` in order, window by window, and gives the source's
// mapped pages back to the kernel afterwards.
Result<void> gather(const Source& source, const TargetTensor& target, const Window& write);

// Corrupt names both places if they differ in any bit.
Result<void> compare(const Source& source, const Comparison& comparison);

}  // namespace roll::convert
