// Dropout with counter-based random numbers. A function of (seed, row, column, layer, site) alone
// decides whether an element is dropped. Therefore, all layouts drop the same elements, and
// forward, its recomputation and backward agree.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Parameters of the dropout of a layer's input.
struct Dropout {
    double probability = 0;  // probability that an element becomes 0; 0: nothing is dropped
    std::uint64_t seed = 0;
    std::int64_t first_row = 0;  // number of the tensor's first row in the run
    std::int64_t layer = 0;
    // The tensor has columns [first_column, first_column + C) of a whole tensor with `columns`
    // columns
    std::int64_t first_column = 0, columns = 0;
};

// Returns x_MC with the dropped elements of site `site` set to 0, and with the other elements
// divided by 1 - probability. For backward, apply this function to the gradient.
at::Tensor dropped(const at::Tensor& x_MC, const Dropout& dropout, int site);

}  // namespace roll::train
