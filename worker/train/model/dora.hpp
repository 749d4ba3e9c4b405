// DoRA of a linear layer (lora.hpp has its formula).
#pragma once

#include "worker/train/model/lora.hpp"

namespace roll::train {

// Returns the length of each row of W + s B A, in the type of the main weights. If the ranks of
// `tp` share the columns of a layer (null: they do not), sums over them.
at::Tensor row_lengths(const Parameters& parameters, const Adapter& adapter, const at::Tensor& w_OI,
                       Communicator* tp, Tag tag);

// Sets the magnitudes to the lengths of their rows.
void set_magnitudes(const Parameters& parameters, const Adapter& adapter,
                    const at::Tensor& length_O);

// The factor c of each output row; 1 for rows of modules without DoRA.
at::Tensor dora_factors(const Parameters& parameters, const Adapter& adapter,
                        const at::Tensor& length_O);

// Returns the outputs of the modules without a bias: W x + (c - 1) W x' + c s B A x'.
at::Tensor dora_forward(const Parameters& parameters, const Adapter& adapter,
                        const at::Tensor& w_OI, const at::Tensor& x_MI, const at::Tensor& factor_O);

// Returns the gradient of the input.
at::Tensor dora_backward_input(const Parameters& parameters, const Adapter& adapter,
                               const at::Tensor& w_OI, const at::Tensor& dy_MO,
                               const at::Tensor& factor_O);

// Passes the computations of the gradients of the factors and of m to `contribute`.
void owe_dora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& w_OI,
              const at::Tensor& dy_MO, const at::Tensor& x_MI, const at::Tensor& length_O,
              const Contribute& contribute);

}  // namespace roll::train
