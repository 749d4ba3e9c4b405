#include "worker/families/rebuild.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "worker/families/expression.hpp"
#include "worker/families/model.hpp"

namespace roll::families {
namespace {

// Fields that describe a training run and not its model.
constexpr std::array<std::string_view, 7> kOfRuns{
    "attention_dropout",       "hidden_dropout",     "init_method_std",
    "mtp_loss_scaling_factor", "moe_aux_loss_coeff", "moe_router_load_balancing_type",
    "rotary_scaling_factor"};

// Fields of optional features. If a family does not define one of these fields, its models lack the
// feature.
constexpr std::array<std::string_view, 17> kOfOthers{
    "num_moe_experts",        "moe_shared_expert_intermediate_size",
    "multi_latent_attention", "mtp_num_layers",
    "qk_layernorm",           "qk_l2_norm",
    "add_qkv_bias",           "add_bias_linear",
    "attention_output_gate",  "experimental_attention_variant",
    "linear_attention_freq",  "layernorm_zero_centered_gamma",
    "rotary_interleaved",     "rotary_scaling",
    "no_rope_freq",           "window_size",
    "hybrid_override_pattern"};

bool is_said(const Json& value) {
    return !value.is_null() && value != false && value != 0 && value != Json::array();
}

// Returns the first path in `paths` that is a top-level key or whose parent object exists; nullptr
// if there is no such path.
const std::string* place_for(const Json& config, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        const std::size_t dot = path.rfind('.');
        if (dot == std::string::npos || value_at(config, path.substr(0, dot)) != nullptr)
            return &path;
    }
    return nullptr;
}

void put(Json& config, std::string path, const Json& value) {
    std::replace(path.begin(), path.end(), '.', '/');
    config[Json::json_pointer("/" + path)] = value;
}

// If the family computes the field as "A * hf.KEY" and the field is divisible by A, sets KEY to the
// field divided by A and returns true. Otherwise returns false.
bool put_factor(const Family& family, const std::string& name, const Json& native, Json& config) {
    constexpr std::string_view kTimes = " * hf.";
    const auto text = family.defaults.find(name);
    if (text == family.defaults.end() || !text->is_string()) return false;
    const auto& expression = text->get_ref<const std::string&>();
    const std::size_t at = expression.find(kTimes);
    if (at == std::string::npos || !native[name].is_number_integer()) return false;
    const auto factor = evaluate(expression.substr(0, at), native);
    const auto value = native[name].get<std::int64_t>();
    if (!factor || *factor < 1 || value % *factor != 0) return false;
    put(config, expression.substr(at + kTimes.size()), value / *factor);
    return true;
}

// Sets the HuggingFace keys that select the layers of a kind. `layers` is 1 or a list of zeros and
// ones.
void put_layers(const LayerKind& kind, const Json& layers, Json& config) {
    Json others = Json::array();
    if (layers.is_array())
        for (std::size_t i = 0; i < layers.size(); ++i)
            if (layers[i] == 0) others.push_back(i);
    if (!kind.from.empty()) put(config, kind.from, others.size());
    if (!kind.every.empty()) put(config, kind.every, 1);
    if (!kind.not_in.empty() && !others.empty()) put(config, kind.not_in, others);
}

void put_constant(const Family& family, const Json& rule, const Json& said, Json& config) {
    if (!rule.is_object()) return;
    if (rule.contains("layers"))
        put_layers(family.layer_kinds.at(rule.value("layers", "")), said, config);
    if (rule.contains("not") && said.is_boolean())
        put(config, rule.value("not", ""), !said.get<bool>());
    if (rule.contains("then") && said == rule["then"])
        put(config, rule["in"].back().get<std::string>(), rule["is"]);
}

Result<void> check(const Family& family, const Json& native, const Json& made) {
    for (const auto& [name, said] : native.items()) {
        if (said.is_null() || std::find(kOfRuns.begin(), kOfRuns.end(), name) != kOfRuns.end())
            continue;
        const auto own = made.find(name);
        const bool foreign = std::find(kOfOthers.begin(), kOfOthers.end(), name) != kOfOthers.end();
        if (own == made.end() ? !(foreign && is_said(said))
                              : *own == said || (!is_said(*own) && !is_said(said)))
            continue;
        return fail(ErrorCode::InvalidArgument, name + " is " + said.dump() +
                                                    "; a model of family " + family.name + " has " +
                                                    (own == made.end() ? "none" : own->dump()));
    }
    return {};
}

}  // namespace

Result<Json> hf_config_of(const Family& family, const Json& native) {
    Json config = family.hf_defaults;
    config["model_type"] = family.model_type;
    // Set constants first, because put_constant() may create parent objects for other keys.
    for (const auto& [name, rule] : family.constants.items())
        if (native.contains(name)) put_constant(family, rule, native[name], config);
    for (const auto& [name, paths] : family.config) {
        const auto said = native.find(name);
        if (said == native.end() || said->is_null() || put_factor(family, name, native, config))
            continue;
        if (const std::string* path = place_for(config, paths)) put(config, *path, *said);
    }
    ROLL_TRY(const Json made, native_config(family, config));
    ROLL_TRY_VOID(check(family, native, made));
    return config;
}

}  // namespace roll::families
