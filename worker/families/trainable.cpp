// Maps a native (Megatron) config to the trainer's config. Fails for the parts that the trainer
// does not support, and names them.
#include <array>
#include <cmath>
#include <limits>

#include "common/counted.hpp"
#include "worker/families/model.hpp"

namespace roll::families {
namespace {

constexpr std::int64_t kSizeMax = std::int64_t{1} << 40U;

const Json* field(const Json& native, const char* key) {
    const auto found = native.find(key);
    return found == native.end() || found->is_null() ? nullptr : &*found;
}

bool is_set(const Json& native, const char* key) {
    const Json* value = field(native, key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    return !value->is_number() || value->get<double>() != 0;
}

tl::unexpected<Error> not_built(const std::string& what) {
    return fail(ErrorCode::InvalidArgument,
                "the trainer does not build " + what + " yet; Roll can only convert such a model");
}

Result<std::int64_t> trained_size(const Json& native, const char* key) {
    const Json* value = field(native, key);
    if (value == nullptr || !value->is_number_integer() || value->get<std::int64_t>() <= 0 ||
        value->get<std::int64_t>() > kSizeMax)
        return fail(ErrorCode::InvalidArgument,
                    std::string("the config needs a whole number above 0 for the key ") + key +
                        (value == nullptr ? "" : ", not " + value->dump()));
    return value->get<std::int64_t>();
}

// Returns the number in the field `key`. If the config lacks the field, returns `otherwise`. Fails
// if the value is not a number above `least`.
Result<double> number(const Json& native, const char* key, double otherwise,
                      double least = -std::numeric_limits<double>::infinity()) {
    const Json* value = field(native, key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() > least))
        return fail(ErrorCode::InvalidArgument,
                    std::string(key) + " is " + value->dump() + "; it must be a number" +
                        (std::isfinite(least) ? " above " + Json(least).dump() : ""));
    return value->get<double>();
}

// Returns the HuggingFace key that sets a native field.
std::string key_of(const Family& family, std::string_view native) {
    for (const auto& [name, paths] : family.config)
        if (name == native) return paths.front();
    return std::string(native);
}

Result<void> check_trainable(const Family& family, const Json& native) {
    for (const char* key :
         {"add_bias_linear", "multi_latent_attention", "attention_output_gate", "mtp_num_layers",
          "router_jitter_noise", "moe_z_loss_coeff", "moe_expert_capacity_factor",
          "moe_router_topk_scaling_factor", "moe_router_num_groups"})
        if (is_set(native, key)) return not_built(std::string("models with ") + key);
    if (const Json* norm = field(native, "normalization"); norm != nullptr && *norm != "RMSNorm")
        return not_built("normalization " + norm->dump());
    for (const char* key : {"attention_dropout", "hidden_dropout"}) {
        ROLL_TRY(const double dropout, number(native, key, 0));
        if (dropout != 0)
            return fail(ErrorCode::InvalidArgument,
                        "the trainer does not build models with " + std::string(key) + " " +
                            Json(dropout).dump() + " yet; set model." + key_of(family, key) +
                            " to 0 in the job to train without dropout");
    }
    ROLL_TRY(const double percent, number(native, "rotary_percent", 1));
    if (percent != 1) return not_built("rotary_percent " + Json(percent).dump());
    return {};
}

// Determines a layer's optional parts (norms, biases) from its tensors. Fails if a layer has a
// tensor that this function does not know.
Result<void> read_layer(const Family& family, const Json& native, spec::ModelConfig& config) {
    bool always = false;
    const std::array<std::pair<const char*, bool*>, 16> of_a_layer{
        {{"self_attention.linear_qkv.layer_norm_weight", &always},
         {"self_attention.linear_qkv.weight", &always},
         {"self_attention.linear_qkv.bias", &config.qkv_bias},
         {"self_attention.q_layernorm.weight", &config.qk_norm},
         {"self_attention.k_layernorm.weight", &config.qk_norm},
         {"self_attention.linear_proj.weight", &always},
         {"self_attention.linear_proj.bias", &config.out_bias},
         {"self_attention.linear_proj.post_layernorm.weight", &config.post_norms},
         {"mlp.linear_fc1.layer_norm_weight", &always},
         {"mlp.linear_fc1.weight", &always},
         {"mlp.linear_fc2.weight", &always},
         {"mlp.linear_fc2.post_layernorm.weight", &config.post_norms},
         {"pre_mlp_layernorm.weight", &always},
         {"mlp.router.weight", &always},
         {"mlp.experts.local_experts.0.linear_fc1.weight", &always},
         {"mlp.experts.local_experts.0.linear_fc2.weight", &always}}};
    ROLL_TRY(const auto tensors, native_tensors(family, native));
    for (const NativeTensor& tensor : tensors) {
        if (tensor.layer.value_or(0) != 0 || tensor.expert.value_or(0) != 0) continue;
        bool found =
            !tensor.layer && (tensor.name == "embedding.word_embeddings.weight" ||
                              tensor.name == "decoder.final_layernorm.weight" ||
                              tensor.name == "output_layer.weight" || tensor.name == kScore);
        for (const auto& [name, has] : of_a_layer) {
            if (tensor.name != std::string("decoder.layers.0.") + name) continue;
            found = true;
            *has = true;
        }
        if (!found) return not_built("models with a tensor " + tensor.name);
    }
    return {};
}

// Reads the settings of YaRN, a method that stretches the positions of RoPE. Names and defaults are
// from transformers' modeling_rope_utils.py.
Result<void> read_yarn(const Json& given, spec::RopeScaling& scaling, double positions) {
    ROLL_TRY(scaling.factor, number(given, "factor", positions / scaling.original_positions, 0));
    ROLL_TRY(scaling.low_factor, number(given, "beta_slow", 1, 0));
    ROLL_TRY(scaling.high_factor, number(given, "beta_fast", 32, scaling.low_factor));
    if (const Json* whole = field(given, "truncate")) scaling.whole = *whole != false;
    ROLL_TRY(const double mscale, number(given, "mscale", 0));
    ROLL_TRY(const double mscale_all, number(given, "mscale_all_dim", 0));
    const auto larger = [&](double scale) {
        return scaling.factor <= 1 ? 1 : 0.1 * scale * std::log(scaling.factor) + 1;
    };
    const bool both = mscale != 0 && mscale_all != 0;
    ROLL_TRY(scaling.attention_factor,
             number(given, "attention_factor",
                    both ? larger(mscale) / larger(mscale_all) : larger(1), 0));
    return {};
}

Result<std::vector<double>> factors(const Json& given, const char* key, std::int64_t head_dim) {
    const Json* list = field(given, key);
    std::vector<double> numbers;
    for (const Json& factor : list != nullptr && list->is_array() ? *list : Json::array())
        if (factor.is_number() && factor.get<double>() > 0) numbers.push_back(factor.get<double>());
    if (2 * std::ssize(numbers) != head_dim)
        return fail(ErrorCode::InvalidArgument,
                    std::string(key) + " must be a list of " + std::to_string(head_dim / 2) +
                        " numbers above 0, half as many as kv_channels");
    return numbers;
}

Result<void> read_long(const Json& given, spec::RopeScaling& scaling,
                       const spec::ModelConfig& config) {
    const auto positions = static_cast<double>(config.positions_max);
    ROLL_TRY(scaling.factor, number(given, "factor", positions / scaling.original_positions, 0));
    const double larger = 1 + std::log(scaling.factor) / std::log(scaling.original_positions);
    ROLL_TRY(scaling.attention_factor,
             number(given, "attention_factor", scaling.factor <= 1 ? 1 : std::sqrt(larger), 0));
    ROLL_TRY(scaling.short_factors, factors(given, "short_factor", config.head_dim));
    ROLL_TRY(scaling.long_factors, factors(given, "long_factor", config.head_dim));
    return {};
}

// Returns original_max_position_embeddings, the number of positions before RoPE is stretched. Older
// configs have this key at the top level (`native`), newer ones in the scaling object `given`. If
// both have it, the top-level value is used. If neither has it, returns `positions`.
Result<double> original_positions(const Json& given, const Json& native, std::int64_t positions) {
    const char* key = "original_max_position_embeddings";
    ROLL_TRY(const double inside, number(given, key, static_cast<double>(positions), 1));
    return number(native, key, inside, 1);
}

// Returns the config's RoPE settings. transformers 4 writes them as rope_scaling, transformers 5 as
// rope_parameters; rope_scaling takes precedence. Returns nullptr if both are absent.
const Json* rope_of(const Json& native) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const Json* one = field(native, key);
        if (one != nullptr && one->is_object() && !one->empty()) return one;
    }
    return nullptr;
}

Result<spec::RopeScaling> rope_scaling(const Family& family, const Json& native,
                                       const spec::ModelConfig& config) {
    spec::RopeScaling scaling;
    const Json* given = rope_of(native);
    if (given == nullptr) return scaling;
    ROLL_TRY(const double part, number(*given, "partial_rotary_factor", 1));
    if (part != 1) return not_built("partial_rotary_factor " + Json(part).dump());
    const Json* word = field(*given, "rope_type");
    if (word == nullptr) word = field(*given, "type");
    if (word == nullptr || !word->is_string() || *word == "default") return scaling;
    const auto type = word->get<std::string>();
    const auto known = family.rope_types.find(type);
    if (known == family.rope_types.end()) return not_built("rotary embeddings of type " + type);
    scaling.kind = known->second;
    using Kind = spec::RopeScaling::Kind;
    if (scaling.kind == Kind::Plain) return scaling;
    if (scaling.kind != Kind::Linear) {
        ROLL_TRY(scaling.original_positions,
                 original_positions(*given, native, config.positions_max));
    }
    if (scaling.kind == Kind::Yarn) {
        ROLL_TRY_VOID(read_yarn(*given, scaling, static_cast<double>(config.positions_max)));
        return scaling;
    }
    if (scaling.kind == Kind::Long) {
        ROLL_TRY_VOID(read_long(*given, scaling, config));
        return scaling;
    }
    ROLL_TRY(scaling.factor, number(*given, "factor", 1, 0));
    if (scaling.kind == Kind::Linear) return scaling;
    ROLL_TRY(scaling.low_factor, number(*given, "low_freq_factor", 1, 0));
    ROLL_TRY(scaling.high_factor, number(*given, "high_freq_factor", 4, scaling.low_factor));
    return scaling;
}

// Reads the attention window and the layers that use it. Megatron's list has 1 or 0 for each layer.
// A single 1, or an absent list, means every layer.
Result<void> read_window(const Json& native, spec::ModelConfig& config) {
    if (const Json* use = field(native, "use_sliding_window"); use != nullptr && *use == false)
        return {};
    if (field(native, "sliding_window") == nullptr) return {};
    ROLL_TRY(config.window, trained_size(native, "sliding_window"));
    const Json* layers = field(native, "sliding_window_layers");
    if (layers == nullptr || !layers->is_array()) return {};
    for (const Json& slides : *layers) config.sliding_layers.push_back(slides == 1);
    if (std::ssize(config.sliding_layers) != config.layers)
        return fail(ErrorCode::InvalidArgument,
                    "sliding_window_layers has " + counted(layers->size(), "entry") +
                        "; num_layers is " + std::to_string(config.layers));
    return {};
}

// Reads the sizes of the experts, and how the router chooses them. All layers must have experts.
Result<void> read_experts(const Json& native, spec::ModelConfig& config) {
    if (!is_set(native, "num_moe_experts")) return {};
    ROLL_TRY(config.experts, trained_size(native, "num_moe_experts"));
    ROLL_TRY(config.experts_per_token, trained_size(native, "moe_router_topk"));
    if (config.experts_per_token > config.experts)
        return fail(ErrorCode::InvalidArgument, "moe_router_topk is " +
                                                    std::to_string(config.experts_per_token) +
                                                    "; allowed: 1 to num_moe_experts, which is " +
                                                    std::to_string(config.experts));
    if (const Json* layers = field(native, "moe_layer_freq"); layers != nullptr) {
        const Json all = layers->is_array() ? *layers : Json::array({*layers});
        for (const Json& has : all)
            if (has != 1) return not_built("layers without experts beside layers with experts");
    }
    for (const auto& [key, built] : {std::pair{"moe_router_load_balancing_type", "aux_loss"},
                                     {"moe_router_score_function", "softmax"}})
        if (const Json* value = field(native, key); value != nullptr && *value != built)
            return not_built(std::string("models with ") + key + " " + value->dump());
    config.normalizes_experts = !is_set(native, "moe_router_pre_softmax");
    ROLL_TRY(config.balance_loss, number(native, "moe_aux_loss_coeff", 0));
    if (field(native, "moe_ffn_hidden_size") != nullptr) {
        ROLL_TRY(config.intermediate, trained_size(native, "moe_ffn_hidden_size"));
    }
    return {};
}

Result<void> read_activation(const Json& native, spec::ModelConfig& config) {
    if (!is_set(native, "gated_linear_unit")) return not_built("feed-forward layers without gate");
    if (is_set(native, "swiglu")) return {};
    const Json* name = field(native, "activation");
    if (name == nullptr || *name != "gelu_tanh")
        return not_built("activation " + (name == nullptr ? "other than swiglu" : name->dump()));
    config.activation = spec::Activation::GeluTanh;
    return {};
}

Result<void> read_scales(const Json& native, spec::ModelConfig& config) {
    ROLL_TRY(config.attention_soft_cap, number(native, "attn_logit_softcapping", 0));
    ROLL_TRY(config.logit_soft_cap, number(native, "final_logit_softcapping", 0));
    ROLL_TRY(const double scalar, number(native, "query_pre_attn_scalar", 0));
    if (scalar > 0) config.attention_scale = 1 / std::sqrt(scalar);
    if (is_set(native, "scale_embeddings"))
        config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
    config.norm_adds_one = is_set(native, "layernorm_zero_centered_gamma");
    return {};
}

}  // namespace

Result<spec::ModelConfig> model_config(const Family& family, const Json& native) {
    ROLL_TRY_VOID(check_trainable(family, native));
    spec::ModelConfig config;
    config.family = family.name;
    ROLL_TRY(config.hidden, trained_size(native, "hidden_size"));
    ROLL_TRY(config.layers, trained_size(native, "num_layers"));
    ROLL_TRY(config.heads, trained_size(native, "num_attention_heads"));
    ROLL_TRY(config.kv_heads, trained_size(native, "num_query_groups"));
    ROLL_TRY(config.head_dim, trained_size(native, "kv_channels"));
    ROLL_TRY(config.intermediate, trained_size(native, "ffn_hidden_size"));
    ROLL_TRY(config.vocab, trained_size(native, "padded_vocab_size"));
    ROLL_TRY(config.positions_max, trained_size(native, "max_sequence_length"));
    if (config.head_dim % 2 != 0)
        return fail(ErrorCode::InvalidArgument, "kv_channels is " +
                                                    std::to_string(config.head_dim) +
                                                    "; rotary embeddings need an even number");
    config.tied = is_set(native, "tie_embeddings_and_output_weights");
    if (const Json* labels = field(native, "score_labels")) {
        if (*labels != 1)
            return fail(ErrorCode::InvalidArgument,
                        "the model classifies sequences with " + labels->dump() +
                            " labels; the trainer builds reward models, which have 1 label");
        config.scores = true;
    }
    ROLL_TRY(config.rope_theta, number(native, "rotary_base", config.rope_theta, 0));
    ROLL_TRY(config.norm_eps, number(native, "layernorm_epsilon", config.norm_eps));
    ROLL_TRY(config.init_std, number(native, "init_method_std", config.init_std));
    ROLL_TRY_VOID(read_experts(native, config));
    ROLL_TRY_VOID(read_layer(family, native, config));
    ROLL_TRY_VOID(read_window(native, config));
    ROLL_TRY_VOID(read_activation(native, config));
    ROLL_TRY_VOID(read_scales(native, config));
    ROLL_TRY(config.rope_scaling, rope_scaling(family, native, config));
    return config;
}

}  // namespace roll::families
