// Counts the parameters that a model uses for one token. A token uses only the router's top k of
// the routed experts in a layer. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// Counts of the decoder with its embedding and output layer. Vision towers and multi-token
// prediction layers do not count, as in published figures.
struct Active {
    std::int64_t parameters = 0;  // all parameters
    std::int64_t per_token = 0;   // parameters that one token uses
    // FLOPs per trained token of the matrix products with weights: 2 forward and 4 backward for
    // each weight that a token is multiplied with. Attention scores do not count.
    double flops = 0;
};

// Counts the tensors that native_tensors() returns for the config `native`. Fails with
// InvalidArgument if the model has experts but the config has no valid top k.
Result<Active> active_parameters(const Json& native, const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
