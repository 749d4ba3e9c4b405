// Muon (torch.optim.Muon, kellerjordan.github.io/posts/muon): the update of a matrix is its
// momentum, orthogonalized by Newton-Schulz iterations. Orthogonalization needs the whole matrix.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "common/spec/train/model.hpp"
#include "worker/train/optim/update.hpp"

namespace roll::train {

// Adds the gradient of this rank's own rows to the momentum. Returns the direction of these rows'
// update, before orthogonalization, in a new tensor.
at::Tensor muon_direction(const Update& update);

// Replaces `matrix`, the directions of a whole parameter, by the orthogonalized and scaled update.
// Orthogonalizes each HuggingFace module of a fused parameter (q, k, v; gate, up) as a separate
// matrix. Computes in the matrix's type on a CPU and, as torch does, in bfloat16 on a GPU.
void orthogonalize(const spec::ModelConfig& config, const spec::OptimizerSpec& options,
                   const std::string& name, const at::Tensor& matrix);

// Applies weight decay to the weights of this rank's own rows, then subtracts lr times `moved`.
void muon_move(const Update& update, const at::Tensor& moved);

}  // namespace roll::train
