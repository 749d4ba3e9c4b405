#include "worker/convert/write/optimizer_values.hpp"

namespace roll::convert {

Json optimizer_values(const Json& rates, std::int64_t updates, const std::string& kind) {
    const auto number = [&](const char* key, double otherwise) {
        const Json value = rates.value(key, Json());
        return value.is_number() ? value.get<double>() : otherwise;
    };
    const double lr = number("lr", 1e-3), decay = number("weight_decay", 0.1);
    Json groups = Json::array();
    // Megatron has one group for the parameters that decay, and one for norms and biases.
    for (const double factor : {1.0, 0.0})
        groups.push_back({{"is_expert_parallel", false},
                          {"default_config", true},
                          {"wd_mult", factor},
                          {"lr_mult", 1.0},
                          {"is_decoupled_lr", false},
                          {"max_lr", lr},
                          {"min_lr", number("min_lr", 0)},
                          {"lr", lr},
                          {"betas", {number("beta1", 0.9), number("beta2", 0.95)}},
                          {"eps", number("eps", 1e-8)},
                          {"weight_decay", decay * factor},
                          {"bias_correction", true},
                          {"amsgrad", false},
                          {"maximize", false},
                          {"foreach", nullptr},
                          {"capturable", false},
                          {"differentiable", false},
                          {"fused", nullptr},
                          {"decoupled_weight_decay", rates.value("kind", Json()) != "adam"},
                          {"step", updates}});
    return {{"optimizer", {{"param_groups", std::move(groups)}}},
            {"param_state_sharding_type", kind}};
}

}  // namespace roll::convert
