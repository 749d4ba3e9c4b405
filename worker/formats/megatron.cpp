#include "worker/formats/megatron.hpp"

#include <array>

namespace roll::formats {
namespace {

constexpr std::size_t kDepthMax = 4;

// Converts a value of the run's arguments to JSON: a number, a text, or a list of such values.
// Other values become null.
Json plain(const Pickle& pickle, PickleId id, std::size_t depth = 0) {
    const PickleNode& node = pickle.at(id);
    switch (node.kind) {
        case PickleKind::Bool: return node.integer != 0;
        case PickleKind::Int: return node.integer;
        case PickleKind::Float: return node.number;
        case PickleKind::Text: return node.text;
        case PickleKind::List:
        case PickleKind::Tuple: {
            Json list = Json::array();
            if (depth < kDepthMax)
                for (const PickleId item : node.items)
                    list.push_back(plain(pickle, item, depth + 1));
            return list;
        }
        default: return nullptr;
    }
}

// Returns the attributes of an argparse.Namespace; nullptr if the node is something else.
const PickleNode* attributes(const Pickle& pickle, PickleId id) {
    const PickleNode& node = pickle.at(id);
    const bool is_namespace = pickle.arguments_of(id, "argparse Namespace") != nullptr ||
                              pickle.arguments_of(id, "types SimpleNamespace") != nullptr;
    if (!is_namespace || node.state == kNoPickle) return nullptr;
    return pickle.is(node.state, PickleKind::Dict) ? &pickle.at(node.state) : nullptr;
}

constexpr LayoutNames kArgs{.where = "args.",
                            .first_layers = "decoder_first_pipeline_num_layers",
                            .last_layers = "decoder_last_pipeline_num_layers"};

// Returns the names of the layout's arguments. Older models have another name for the size tp.
LayoutNames names_in(const Json& args) {
    LayoutNames names = kArgs;
    const auto tp = args.find(names.tp);
    if ((tp == args.end() || tp->is_null()) && args.contains("model_parallel_size"))
        names.tp = "model_parallel_size";
    return names;
}

// Native fields that have a different name in Megatron's arguments.
constexpr std::array<std::pair<const char*, const char*>, 6> kRenamed{
    {{"max_sequence_length", "max_position_embeddings"},
     {"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
     {"layernorm_epsilon", "norm_epsilon"},
     {"num_moe_experts", "num_experts"},
     {"rotary_scaling", "use_rope_scaling"},
     {"rotary_scaling_factor", "rope_scaling_factor"}}};
// Native fields that only HuggingFace configs or ROLL have.
constexpr std::array<const char*, 4> kForeign{"hf_config_json", "hf_model_type", "name_or_path",
                                              "tie_embeddings_and_output_weights"};

void write_value(PickleWriter& out, const Json& value) {
    switch (value.type()) {
        case Json::value_t::boolean: return out.boolean(value.get<bool>());
        case Json::value_t::number_integer:
        case Json::value_t::number_unsigned: return out.integer(value.get<std::int64_t>());
        case Json::value_t::number_float: return out.number(value.get<double>());
        case Json::value_t::string: return out.text(value.get<std::string>());
        case Json::value_t::array:
            return out.list([&] {
                for (const Json& item : value) write_value(out, item);
            });
        case Json::value_t::object: return out.dict([&] { write_entries(out, value); });
        default: return out.op(pickle_op::kNone);
    }
}

// Parts of tensor names. The first text of a pair is the part in models older than Megatron core.
// The second text is the same part in Megatron core.
constexpr std::array<std::pair<const char*, const char*>, 14> kSpellings{
    {{"language_model.encoder.", "decoder."},
     {"language_model.transformer.", "decoder."},
     {"language_model.", ""},
     {"word_embeddings_for_head.", "output_layer."},
     {".attention.", ".self_attention."},
     {".query_key_value.", ".linear_qkv."},
     {".self_attention.dense.", ".self_attention.linear_proj."},
     {".mlp.dense_h_to_4h.", ".mlp.linear_fc1."},
     {".mlp.dense_h_to_4h_2.", ".mlp.linear_fc1_2."},
     {".mlp.dense_4h_to_h.", ".mlp.linear_fc2."},
     {".input_norm.", ".input_layernorm."},
     {".post_attention_layernorm.", ".pre_mlp_layernorm."},
     {".post_attention_norm.", ".pre_mlp_layernorm."},
     {".final_norm.", ".final_layernorm."}}};

constexpr std::array<std::pair<const char*, const char*>, 8> kFormer{
    {{"self_attention.linear_qkv.weight", "self_attention.query_key_value.weight"},
     {"self_attention.linear_qkv.bias", "self_attention.query_key_value.bias"},
     {"self_attention.linear_proj.weight", "self_attention.dense.weight"},
     {"mlp.linear_fc1.weight", "mlp.dense_h_to_4h.weight"},
     {"mlp.linear_fc2.weight", "mlp.dense_4h_to_h.weight"},
     {"input_layernorm.weight", "input_norm.weight"},
     {"pre_mlp_layernorm.weight", "post_attention_norm.weight"},
     {"final_layernorm.weight", "final_norm.weight"}}};

}  // namespace

Result<MegatronState> read_megatron_state(const TorchFile& file) {
    const Pickle& pickle = file.pickle();
    MegatronState state;
    const PickleNode& top = pickle.at(pickle.root());
    const bool is_list = top.kind == PickleKind::List && top.items.size() == 1;
    const PickleId root = is_list ? top.items[0] : pickle.root();
    if (const PickleId* version = pickle.find(root, "checkpoint_version")) {
        const PickleNode& node = pickle.at(*version);
        state.version =
            node.kind == PickleKind::Int ? static_cast<double>(node.integer) : node.number;
    }
    const PickleId* args = pickle.find(root, "args");
    const PickleNode* values = args == nullptr ? nullptr : attributes(pickle, *args);
    if (values == nullptr) return state;
    state.has_args = true;
    for (std::size_t i = 0; i + 1 < values->items.size(); i += 2)
        if (pickle.is(values->items[i], PickleKind::Text))
            state.args[pickle.at(values->items[i]).text] = plain(pickle, values->items[i + 1]);
    ROLL_TRY(state.layout, read_layout(state.args, names_in(state.args)));
    return state;
}

Json megatron_args(const McaConfig& config, tensor::DType dtype) {
    Json args = config.native;
    for (const char* key : kForeign) args.erase(key);
    for (const auto& [native, name] : kRenamed)
        if (config.native.contains(native)) args[name] = config.native[native];
    const auto number = [&](const char* key) {
        return args.contains(key) && args[key].is_number_integer() ? args[key].get<std::int64_t>()
                                                                   : 0;
    };
    args["untie_embeddings_and_output_weights"] =
        !is_true(config.native, "tie_embeddings_and_output_weights");
    args["group_query_attention"] = number("num_query_groups") != number("num_attention_heads");
    args["seq_length"] = args.value("max_position_embeddings", Json());
    args["add_position_embedding"] = true;
    args["make_vocab_size_divisible_by"] = 1;
    args["tokenizer_type"] = "HuggingFaceTokenizer";
    set_layout(args, config, dtype, kArgs);
    args["iteration"] = 0;
    args["consumed_train_samples"] = 0;
    args["consumed_valid_samples"] = 0;
    return args;
}

namespace {

// Returns moe_layer_freq as a list. If it is a number n, every n-th layer has experts, starting
// with the first layer.
Json expert_layers(const Json& frequency, std::int64_t layers) {
    if (!frequency.is_number_integer() || frequency <= 1) return frequency;
    Json list = Json::array();
    for (std::int64_t layer = 0; layer < layers; ++layer)
        list.push_back(layer % frequency.get<std::int64_t>() == 0 ? 1 : 0);
    return list;
}

}  // namespace

Json native_of_args(const Json& args) {
    Json native = args;
    for (const auto& [field, name] : kRenamed)
        if (args.contains(name)) native[field] = args[name];
    native["tie_embeddings_and_output_weights"] =
        !is_true(args, "untie_embeddings_and_output_weights");
    if (!is_true(args, "group_query_attention"))
        native["num_query_groups"] = args.value("num_attention_heads", Json());
    // number of tokens, without the padding rows
    const Json tokens = args.value("vocab_size", Json());
    const Json rows = args.value("padded_vocab_size", Json());
    if (tokens.is_number_integer() && tokens > 0 && (rows.is_null() || tokens <= rows))
        native["padded_vocab_size"] = tokens;
    if (is_true(args, "multi_latent_attention")) {
        native.erase("kv_channels");
        native["num_query_groups"] = args.value("num_attention_heads", Json());
        // with latent attention, the factor is in this argument, not in rope_scaling_factor
        if (args.contains("rotary_scaling_factor"))
            native["rotary_scaling_factor"] = args["rotary_scaling_factor"];
    }
    if (native.value("num_moe_experts", Json()).is_null()) {
        native.erase("moe_layer_freq");
        return native;
    }
    if (native.value("moe_ffn_hidden_size", Json()).is_null())
        native["moe_ffn_hidden_size"] = args.value("ffn_hidden_size", Json());
    const Json layers = args.value("num_layers", Json());
    if (native.contains("moe_layer_freq") && layers.is_number_integer() && layers < 100'000)
        native["moe_layer_freq"] =
            expert_layers(native["moe_layer_freq"], layers.get<std::int64_t>());
    return native;
}

void write_namespace(PickleWriter& out, const Json& args) {
    out.object("argparse", "Namespace");
    write_value(out, args);
    out.op(pickle_op::kBuild);
}

void write_entries(PickleWriter& out, const Json& entries) {
    for (const auto& [key, value] : entries.items()) {
        out.text(key);
        write_value(out, value);
    }
}

void write_megatron_state(PickleWriter& out, const Json& args, int version,
                          std::int64_t iteration) {
    out.text("args");
    write_namespace(out, args);
    if (version > 0) {
        out.text("checkpoint_version");
        out.number(version);
    }
    out.text("iteration");
    out.integer(iteration);
}

std::string former_spelling(const std::string& core, bool tied) {
    if (core == "embedding.word_embeddings.weight")
        return "language_model/embedding/word_embeddings/weight";
    if (core == "output_layer.weight")
        return tied ? "word_embeddings_for_head/weight" : "language_model/output_layer/weight";
    const std::string decoder = "decoder.";
    if (!core.starts_with(decoder)) return "";
    for (const auto& [ending, former] : kFormer)
        if (core.ends_with(ending)) {
            std::string name = core.substr(decoder.size());
            name.resize(name.size() - std::string_view(ending).size());
            return "language_model/encoder/" + name + former;
        }
    return "";
}

std::string core_spelling(std::string name) {
    while (name.starts_with("module.") || name.starts_with("model.") ||
           name.starts_with("base_model."))
        name.erase(0, name.find('.') + 1);
    for (const auto& [older, core] : kSpellings)
        if (const std::size_t at = name.find(older); at != std::string::npos)
            name.replace(at, std::string(older).size(), core);
    return name;
}

}  // namespace roll::formats
