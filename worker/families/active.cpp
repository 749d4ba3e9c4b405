#include "worker/families/active.hpp"

#include <algorithm>

namespace roll::families {
namespace {

bool is_counted(const NativeTensor& tensor) {
    return tensor.name.starts_with("decoder.") || tensor.name.starts_with("embedding.") ||
           tensor.name.starts_with("output_layer.") || tensor.name == kScore;
}

// Returns the number of routed experts that a token uses in a layer with `experts` routed experts.
Result<std::int64_t> top_k(const Json& native, std::int64_t experts) {
    const Json k = native.value("moe_router_topk", Json());
    if (!k.is_number_integer() || k < 1 || k > experts)
        return fail(ErrorCode::InvalidArgument, "moe_router_topk is " + k.dump() +
                                                    "; allowed: 1 to num_moe_experts, which is " +
                                                    std::to_string(experts));
    return k.get<std::int64_t>();
}

}  // namespace

Result<Active> active_parameters(const Json& native, const std::vector<NativeTensor>& tensors) {
    Active active;
    std::int64_t multiplied = 0, embedding = 0, routed = 0, routed_multiplied = 0, experts = 0;
    bool has_output = false;
    for (const NativeTensor& tensor : tensors) {
        if (!is_counted(tensor)) continue;
        ROLL_TRY(const std::int64_t size, tensor::element_count(tensor.shape));
        active.parameters += size;
        has_output |= tensor.name.starts_with("output_layer.") || tensor.name == kScore;
        const bool is_embedding = tensor.name.starts_with("embedding.");
        const std::int64_t product = tensor.shape.size() == 2 && !is_embedding ? size : 0;
        if (is_embedding) embedding += size;
        if (tensor.expert) {
            routed += size;
            routed_multiplied += product;
            experts = std::max(experts, *tensor.expert + 1);
        } else {
            active.per_token += size;
            multiplied += product;
        }
    }
    // A tied embedding also takes part in a matrix product, because it is the output layer.
    if (!has_output) multiplied += embedding;
    if (experts > 0) {
        ROLL_TRY(const std::int64_t k, top_k(native, experts));
        active.per_token += routed / experts * k;
        multiplied += routed_multiplied / experts * k;
    }
    active.flops = 6 * static_cast<double>(multiplied);
    return active;
}

}  // namespace roll::families
