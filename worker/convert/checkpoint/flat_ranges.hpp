// Splits ranges of a tensor's flattened elements into boxes (blocks with a range in each
// dimension), for checkpoints that store flattened parameters.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/convert/checkpoint/pieces.hpp"

namespace roll::convert {

// Called for each box. `begin`: index of the box's first element. `size`: the box's size. `first`:
// number of elements of the range that precede the box in row-major order.
using Box = std::function<void(const Shape& begin, const Shape& size, std::int64_t first)>;
// Splits the elements [begin, end) of a row-major tensor into boxes and calls `box` for each.
void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box);

}  // namespace roll::convert
