// Splits ranges of the flat elements of a tensor into boxes, for checkpoints that store parameters
// flat.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/convert/checkpoint/pieces.hpp"

namespace roll::convert {

// Called for each box: its first corner `begin`, its `size`, and the row-major index `first` of its
// first element.
using Box = std::function<void(const Shape& begin, const Shape& size, std::int64_t first)>;
// Splits the elements [begin, end) of a row-major tensor into boxes and calls `box` for each.
void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box);

}  // namespace roll::convert
