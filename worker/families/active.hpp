// Counts the parameters that a model uses for one token. Of a layer's routed experts, a token uses
// only the router's top k. Pure.
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
    // FLOPs per trained token of the products with weights: 2 forward and 4 backward for each
    // weight that one token is multiplied with. Products of attention scores do not count.
    double flops = 0;
};

// Counts the tensors that native_tensors() returns for the config `native`. Fails with
// InvalidArgument if the model has experts but the config has no valid top k.
Result<Active> active_parameters(const Json& native, const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
