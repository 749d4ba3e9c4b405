// Divides the rows of a tensor among ranks. Pure.
#pragma once

#include <cstdint>

namespace roll::layout {

// The rows [begin, begin + count) of a tensor's first dimension.
struct Rows {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    friend bool operator==(const Rows&, const Rows&) = default;
};

// Returns the rows that rank `rank` of `ranks` owns in a tensor with `rows` rows. Each rank owns
// consecutive rows, and every row has one owner. The ranks' numbers of rows differ by at most 1.
Rows own_rows(std::int64_t rows, int ranks, int rank);

}  // namespace roll::layout
