#include "worker/convert/optimizer_values.hpp"

#include "common/files.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/convert/read/state_info.hpp"

namespace roll::convert {
namespace {

// Returns train.optimizer of the job that wrote the source; an empty object if it is unknown.
Json rates_of(const Source& source) {
    const auto text = read_file(source.directory / checkpoint::kJobFile);
    const auto job = text ? parse_json(*text) : tl::unexpected(text.error());
    if (!job || !job->is_object()) return Json::object();
    const Json rates = job->value(Json::json_pointer("/train/optimizer"), Json());
    return rates.is_object() ? rates : Json::object();
}

}  // namespace

Json optimizer_values(const Source& source, const OptimizerStates& states) {
    const Json rates = rates_of(source);
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
                          {"step", states.updates}});
    return {{"optimizer", {{"param_groups", std::move(groups)}}},
            {"param_state_sharding_type", kFullyReshardable}};
}

}  // namespace roll::convert
