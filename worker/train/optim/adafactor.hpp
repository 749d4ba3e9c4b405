// Adafactor (arXiv 1804.04235), with the formulas of transformers.Adafactor. For a matrix,
// Adafactor keeps only the means of the squared gradients of each row and each column. The matrices
// of HuggingFace modules that are fused in a parameter count as separate matrices.
//
// The means are those of the whole matrix: each rank adds its part, and all ranks of the parameter
// keep the same means. Therefore, the update does not depend on the layout.
#pragma once

#include <span>

#include "common/spec/train/model.hpp"
#include "worker/train/optim/update.hpp"
#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {

// Makes the updates of a chunk's parameters. State: exp_avg_sq_row [rows] and exp_avg_sq_col
// [modules, columns] of a whole matrix; exp_avg_sq of this rank's own elements of a vector. All
// ranks of the dp and tp groups that `sums` uses must call this function with the same parameters.
void adafactor(std::span<const Update> updates, const spec::ModelConfig& config,
               const WholeSums& sums);

}  // namespace roll::train
