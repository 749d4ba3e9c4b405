// Muon (torch.optim.Muon, kellerjordan.github.io/posts/muon): the update of a matrix is its
// momentum, orthogonalized by Newton-Schulz iterations. This needs the whole matrix.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "common/spec/model.hpp"
#include "worker/train/optim/update.hpp"

namespace roll::train {

// Adds the gradient of the own rows to the momentum. Returns the direction of the own rows, which
// is not orthogonalized yet, in a tensor of its own.
at::Tensor muon_direction(const Update& update);

// Replaces the directions of a whole parameter by their orthogonalized and scaled update. The
// HuggingFace modules of a fused parameter (q, k, v; gate, up) are matrices of their own. Computes
// in the matrix's type on a CPU and, as torch does, in bfloat16 on a GPU.
void orthogonalize(const spec::ModelConfig& config, const spec::OptimizerSpec& options,
                   const std::string& name, const at::Tensor& matrix);

// Decays the own rows' weights, and moves them by lr times `moved`.
void muon_move(const Update& update, const at::Tensor& moved);

}  // namespace roll::train
