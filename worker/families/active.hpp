// Counts the parameters that a model uses for one token. A token uses only the k routed experts per
// layer that the router selects. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// Parameter counts and FLOPs of the decoder with its embedding and output layer. As in published
// figures, vision towers and multi-token prediction layers do not count.
struct Active {
    std::int64_t parameters = 0;  // all parameters
    std::int64_t per_token = 0;   // parameters that one token uses
    // FLOPs of the matrix products with weights, per trained token. Each weight that a token uses
    // in a product counts as 2 FLOPs in forward and 4 in backward. Attention scores do not count.
    double flops = 0;
};

// Counts the parameters of `tensors`, which native_tensors() returned for the config `native`.
// Fails with InvalidArgument if the model has experts but the config has no valid top k.
Result<Active> active_parameters(const Json& native, const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
