// Dropout and noise with counter-based random numbers. Whether an element is dropped depends only
// on (seed, row, column, layer, site). Therefore, all layouts drop the same elements. Forward, its
// recomputation and backward drop the same elements, too.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "worker/train/model/row_split.hpp"
#include "worker/train/model/sequences.hpp"

namespace roll::train {

// Parameters of the dropout of a layer's input.
struct Dropout {
    double probability = 0;  // probability that an element becomes 0; 0: nothing is dropped
    std::uint64_t seed = 0;
    std::int64_t first_row = 0;  // same as Microbatch::first_row
    std::int64_t layer = 0;
    // For each row, its number, counted from first_row (int64, on the CPU); undefined: the rows are
    // numbered from 0
    at::Tensor number_M = {};
    // The tensor is columns [first_column, first_column + C) of a whole tensor with `columns`
    // columns
    std::int64_t first_column = 0, columns = 0;
};

// Returns x_MC with dropout at site `site`: the dropped elements are 0, and the others are divided
// by 1 - probability. For backward, apply this function to the gradient.
at::Tensor dropped(const at::Tensor& x_MC, const Dropout& dropout, int site);

// Adds NEFTune's noise to `x_MC`, this rank's rows of the embedding's output. Does nothing if the
// rule has no noise. The noise is drawn in `type`. An element's position among all rows of the run
// decides which random number is used. Therefore, the noise does not depend on the layout or on a
// restart.
void add_noise(const Microbatch& data, const LossRule& rule, const RowSplit& rows,
               at::ScalarType type, const at::Tensor& x_MC);

}  // namespace roll::train
