// Counts the parameters that a model uses for one token. A token uses only the k routed experts per
// layer that the router selects. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// The numbers for the decoder with its embedding and output layer. As in published figures, vision
// towers and multi-token prediction layers are left out.
struct Active {
    std::int64_t parameters = 0;  // all parameters
    std::int64_t per_token = 0;   // parameters that one token uses
    // FLOPs per trained token of the matrix products with weights: for each weight by which a token
    // is multiplied, 2 in forward and 4 in backward. Attention scores do not count.
    double flops = 0;
};

// Counts the parameters of `tensors`, which native_tensors() returned for the config `native`.
// Fails with InvalidArgument if the model has experts but the config has no valid top k.
Result<Active> active_parameters(const Json& native, const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
