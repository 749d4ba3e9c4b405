#include "worker/formats/nemo.hpp"

#include <array>
#include <regex>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "common/number.hpp"

namespace roll::formats {
namespace {

// Tar ------------------------------------------------------------------------------------------

constexpr std::size_t kBlock = 512;

tl::unexpected<Error> corrupt(const std::string& what) {
    return fail(ErrorCode::Corrupt, "tar: " + what);
}

std::string text_field(std::span<const std::byte> block, std::size_t at, std::size_t size) {
    const auto* const begin = reinterpret_cast<const char*>(block.data()) + at;
    const std::string_view field(begin, size);
    return std::string(field.substr(0, field.find('\0')));
}

// Octal digits, or, of large files, a binary number after 0x80.
std::optional<std::int64_t> size_field(std::span<const std::byte> block) {
    const auto first = static_cast<unsigned char>(block[124]);
    std::int64_t value = 0;
    if (first == 0x80) {
        for (std::size_t i = 128; i < 136; ++i)
            value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8U |
                                              static_cast<unsigned char>(block[i]));
        return value < 0 ? std::nullopt : std::optional(value);
    }
    std::string digits = text_field(block, 124, 12);
    while (!digits.empty() && (digits.back() == ' ')) digits.pop_back();
    const auto octal = parse_number<std::int64_t>(digits, 8);
    return octal && *octal >= 0 ? octal : std::nullopt;
}

// "27 path=some/long/name\n" among a pax header's records.
std::string pax_path(std::string_view records) {
    const std::size_t at = records.find(" path=");
    if (at == std::string_view::npos) return "";
    const std::string_view value = records.substr(at + 6);
    return std::string(value.substr(0, value.find('\n')));
}

std::string without_dot(std::string name) {
    while (name.starts_with("./")) name.erase(0, 2);
    return name;
}

// Names ----------------------------------------------------------------------------------------

constexpr std::array<std::pair<const char*, const char*>, 8> kNames{
    {{"self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"},
     {"self_attention.linear_qkv.weight", "self_attention.query_key_value.weight"},
     {"self_attention.linear_proj.weight", "self_attention.dense.weight"},
     {"mlp.linear_fc1.layer_norm_weight", "post_attention_layernorm.weight"},
     {"mlp.linear_fc1.weight", "mlp.dense_h_to_4h.weight"},
     {"mlp.linear_fc1_2.weight", "mlp.dense_h_to_4h_2.weight"},
     {"mlp.linear_fc2.weight", "mlp.dense_4h_to_h.weight"},
     {"final_layernorm.weight", "final_layernorm.weight"}}};

// JSON is YAML, but for readers of YAML 1.1 a number with an exponent needs a point.
std::string yaml_of(const Json& json) {
    static const std::regex bare("([:,\\[]\\s+-?[0-9]+)e");
    return std::regex_replace(json.dump(2), bare, "$1.0e") + "\n";
}

Json model_config(const McaConfig& config) {
    const Json& native = config.native;
    const auto value = [&](const char* key) { return native.value(key, Json()); };
    const Json positions = value("max_sequence_length");
    return {{"padded_vocab_size", value("padded_vocab_size")},
            {"make_vocab_size_divisible_by", 1},
            {"tensor_model_parallel_size", config.layout.tp},
            {"pipeline_model_parallel_size", 1},
            {"micro_batch_size", 1},
            {"global_batch_size", 32},
            {"resume_from_checkpoint", nullptr},
            {"encoder_seq_length", positions},
            {"seq_length", positions},
            {"max_position_embeddings", positions},
            {"num_layers", value("num_layers")},
            {"hidden_size", value("hidden_size")},
            {"ffn_hidden_size", value("ffn_hidden_size")},
            {"num_attention_heads", value("num_attention_heads")},
            {"num_query_groups", value("num_query_groups")},
            {"kv_channels", value("kv_channels")},
            {"init_method_std", value("init_method_std")},
            {"use_scaled_init_method", true},
            {"hidden_dropout", value("hidden_dropout")},
            {"attention_dropout", value("attention_dropout")},
            {"ffn_dropout", 0.0},
            {"apply_query_key_layer_scaling", false},
            {"layernorm_epsilon", value("layernorm_epsilon")},
            {"transformer_block_type", "pre_ln"},
            {"do_layer_norm_weight_decay", false},
            {"pre_process", true},
            {"post_process", true},
            {"persist_layer_norm", true},
            {"normalization", "rmsnorm"},
            {"bias", false},
            {"bias_activation_fusion", false},
            {"bias_dropout_add_fusion", false},
            {"activation", "swiglu"},
            {"headscale", false},
            {"position_embedding_type", "rope"},
            {"rotary_percentage", value("rotary_percent")},
            {"rotary_base", value("rotary_base")},
            {"megatron_legacy", true},
            {"share_embeddings_and_output_weights", value("tie_embeddings_and_output_weights")},
            {"activations_checkpoint_granularity", "selective"},
            {"activations_checkpoint_method", "uniform"},
            {"activations_checkpoint_num_layers", nullptr},
            {"sequence_parallel", config.layout.tp > 1},
            {"tokenizer",
             {{"library", "huggingface"},
              {"type", native.value("name_or_path", Json(""))},
              {"model", nullptr},
              {"vocab_file", nullptr},
              {"merge_file", nullptr},
              {"delimiter", nullptr},
              {"sentencepiece_legacy", false}}},
            {"fp32_residual_connection", false},
            {"fp16_lm_cross_entropy", false},
            {"megatron_amp_O2", true},
            {"seed", 1234},
            {"use_cpu_initialization", false},
            {"gradient_as_bucket_view", true},
            {"data", {{"data_impl", "mmap"}, {"num_workers", 2}, {"dataloader_type", "cyclic"}}},
            {"optim",
             {{"name", "distributed_fused_adam"},
              {"lr", 1e-6},
              {"weight_decay", 0.0},
              {"betas", {0.9, 0.95}},
              {"sched", {{"name", "CosineAnnealing"}, {"max_steps", 200}, {"min_lr", 1e-6}}}}}};
}

}  // namespace

Result<NemoConfig> parse_nemo_config(const std::string& yaml, const std::string& where) {
    NemoConfig config;
    try {
        YAML::Node root = YAML::Load(yaml);
        if (!root.IsMap()) return fail(ErrorCode::Corrupt, where + " is no YAML mapping");
        const YAML::Node model = root["model"] && root["model"].IsMap() ? root["model"] : root;
        if (model["megatron_legacy"] && model["megatron_legacy"].IsScalar())
            config.rows_by_part = model["megatron_legacy"].as<bool>();
    } catch (const YAML::Exception& problem) {
        return fail(ErrorCode::Corrupt, where + ": " + problem.what());
    }
    return config;
}

NemoFiles nemo_configs(const McaConfig& config, const std::string& name) {
    const Json model = model_config(config);
    const Json training{{"name", "megatron_" + name},
                        {"restore_from_path", nullptr},
                        {"trainer",
                         {{"devices", config.layout.tp},
                          {"num_nodes", 1},
                          {"accelerator", "gpu"},
                          {"precision", "bf16"},
                          {"logger", false},
                          {"enable_checkpointing", false},
                          {"replace_sampler_ddp", false},
                          {"max_epochs", -1},
                          {"max_steps", 200},
                          {"log_every_n_steps", 1},
                          {"val_check_interval", 20},
                          {"limit_val_batches", 2},
                          {"limit_test_batches", 0},
                          {"accumulate_grad_batches", 1},
                          {"gradient_clip_val", 1.0},
                          {"benchmark", false}}},
                        {"exp_manager",
                         {{"explicit_log_dir", nullptr},
                          {"exp_dir", nullptr},
                          {"name", "megatron_" + name},
                          {"create_tensorboard_logger", false},
                          {"create_wandb_logger", false},
                          {"resume_if_exists", false},
                          {"resume_ignore_no_checkpoint", true},
                          {"create_checkpoint_callback", false}}},
                        {"model", model}};
    return {yaml_of(training), yaml_of(model)};
}

std::string nemo_name(const std::string& native) {
    const std::string front = "model.language_model.";
    if (native == "embedding.word_embeddings.weight" || native == "output_layer.weight")
        return front + native;
    const std::string decoder = "decoder.";
    if (!native.starts_with(decoder)) return "";
    for (const auto& [core, nemo] : kNames)
        if (native.ends_with("." + std::string(core))) {
            const std::string kept = native.substr(
                decoder.size(), native.size() - decoder.size() - std::string(core).size());
            return front + "encoder." + kept + nemo;
        }
    return "";
}

Result<std::vector<TarMember>> parse_tar(std::span<const std::byte> archive) {
    if (archive.size() >= 2 && archive[0] == std::byte{0x1F} && archive[1] == std::byte{0x8B})
        return fail(ErrorCode::InvalidArgument, "the archive is compressed",
                    "unpack it (tar xzf) and convert the directory");
    std::vector<TarMember> members;
    std::string long_name;
    std::size_t at = 0;
    while (at + kBlock <= archive.size()) {
        const auto block = archive.subspan(at, kBlock);
        if (block[0] == std::byte{0}) return members;
        const auto size = size_field(block);
        if (text_field(block, 257, 5) != "ustar" || !size) return corrupt("a broken header");
        at += kBlock;
        if (*size > static_cast<std::int64_t>(archive.size() - at))
            return corrupt("a member beyond the end of the file");
        const auto content = archive.subspan(at, static_cast<std::size_t>(*size));
        const char type = static_cast<char>(block[156]);
        const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
        if (type == 'L') {
            long_name = std::string(text.substr(0, text.find('\0')));
        } else if (type == 'x') {
            long_name = pax_path(text);
        } else if (type == '0' || type == '\0') {
            const std::string prefix = text_field(block, 345, 155);
            const std::string name =
                (prefix.empty() ? "" : prefix + "/") + text_field(block, 0, 100);
            members.push_back({without_dot(long_name.empty() ? name : long_name),
                               static_cast<std::int64_t>(at), *size});
            long_name.clear();
        }
        at += (static_cast<std::size_t>(*size) + kBlock - 1) / kBlock * kBlock;
    }
    return corrupt("no end");
}

}  // namespace roll::formats
