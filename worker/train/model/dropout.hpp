// Dropout with counter-based random numbers: the element in a row and a column of a site is dropped
// or not by a function of (seed, row, column, layer, site) alone. So all layouts drop the same
// elements, and forward, its recomputation and backward agree.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// The dropout of the input of a layer.
struct Dropout {
    double probability = 0;  // with which an element becomes 0; 0: nothing is dropped
    std::uint64_t seed = 0;
    std::int64_t first_row = 0;  // number of the tensor's first row in the run
    std::int64_t layer = 0;
    // The columns [first_column, first_column + C) of `columns` that the tensor has
    std::int64_t first_column = 0, columns = 0;
};

// Returns x_MC with the dropped elements of site number `site` set to 0, and the others divided by
// 1 - probability. The same function is its own backward.
at::Tensor dropped(const at::Tensor& x_MC, const Dropout& dropout, int site);

}  // namespace roll::train
