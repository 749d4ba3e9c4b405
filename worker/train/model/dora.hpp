// DoRA of a linear layer (lora.hpp has its formula).
#pragma once

#include "worker/train/model/lora.hpp"

namespace roll::train {

// Returns the length of each row of W + s B A, in the type of the main weights. `tp`: the group of
// the ranks that each hold some columns of the layer; null: this rank holds all columns. With `tp`,
// the squares are summed over the ranks. All ranks of the group must then call this function.
at::Tensor row_lengths(const Parameters& parameters, const Adapter& adapter, const at::Tensor& w_OI,
                       Communicator* tp, Tag tag);

// Sets the magnitudes to `length_O`, the lengths of the rows of W + s B A.
void set_magnitudes(const Parameters& parameters, const Adapter& adapter,
                    const at::Tensor& length_O);

// Returns the factor c of each output row; 1 for rows of modules without DoRA.
at::Tensor dora_factors(const Parameters& parameters, const Adapter& adapter,
                        const at::Tensor& length_O);

// Returns the outputs of all modules of the layer without the bias: W x + (c - 1) W x' + c s B A
// x'. c is factor_O, s the adapter's scale, and x' is x after the adapter's dropout.
at::Tensor dora_forward(const Parameters& parameters, const Adapter& adapter,
                        const at::Tensor& w_OI, const at::Tensor& x_MI, const at::Tensor& factor_O);

// Returns dx_MI, the gradient of the layer's input.
at::Tensor dora_backward_input(const Parameters& parameters, const Adapter& adapter,
                               const at::Tensor& w_OI, const at::Tensor& dy_MO,
                               const at::Tensor& factor_O);

// Calls `contribute` with the functions that compute the gradients of A, B and the magnitudes.
void owe_dora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& w_OI,
              const at::Tensor& dy_MO, const at::Tensor& x_MI, const at::Tensor& length_O,
              const Contribute& contribute);

}  // namespace roll::train
