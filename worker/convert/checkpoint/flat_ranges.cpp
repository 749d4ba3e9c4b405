#include "worker/convert/checkpoint/flat_ranges.hpp"

#include <algorithm>

namespace roll::convert {
namespace {

void split_range(const Shape& shape, std::size_t dim, Shape begin, std::int64_t from,
                 std::int64_t to, std::int64_t& first, const Box& box) {
    const auto emit = [&](std::int64_t at, std::int64_t count, std::int64_t inner) {
        Shape size(shape.size(), 1);
        for (std::size_t i = dim + 1; i < shape.size(); ++i) size[i] = shape[i];
        size[dim] = count;
        begin[dim] = at;
        box(begin, size, first);
        first += count * inner;
    };
    std::int64_t inner = 1;
    for (std::size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
    std::int64_t row = from / inner;
    const std::int64_t last = to / inner;
    const auto part = [&](std::int64_t at, std::int64_t in, std::int64_t out) {
        begin[dim] = at;
        split_range(shape, dim + 1, begin, in, out, first, box);
        std::fill(begin.begin() + static_cast<std::ptrdiff_t>(dim) + 1, begin.end(), 0);
    };
    if (from % inner != 0) {
        part(row, from % inner, std::min(inner, to - row * inner));
        ++row;
    }
    if (row < last) emit(row, last - row, inner);
    if (to % inner != 0 && last >= row) part(last, 0, to % inner);
}

}  // namespace

void boxes_of_range(const Shape& shape, std::int64_t begin, std::int64_t end, const Box& box) {
    if (begin >= end) return;
    std::int64_t first = 0;
    if (shape.empty()) return box({}, {}, first);
    split_range(shape, 0, Shape(shape.size(), 0), begin, end, first, box);
}

}  // namespace roll::convert
