#include "worker/formats/nemo.hpp"

#include <array>
#include <regex>

#include <yaml-cpp/yaml.h>

namespace roll::formats {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 8> kNames{
    {{"self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"},
     {"self_attention.linear_qkv.weight", "self_attention.query_key_value.weight"},
     {"self_attention.linear_proj.weight", "self_attention.dense.weight"},
     {"mlp.linear_fc1.layer_norm_weight", "post_attention_layernorm.weight"},
     {"mlp.linear_fc1.weight", "mlp.dense_h_to_4h.weight"},
     {"mlp.linear_fc1_2.weight", "mlp.dense_h_to_4h_2.weight"},
     {"mlp.linear_fc2.weight", "mlp.dense_4h_to_h.weight"},
     {"final_layernorm.weight", "final_layernorm.weight"}}};

// Returns the value as YAML. JSON is also YAML, so this is the JSON text with one change: a number
// such as 1e-05 becomes 1.0e-05. YAML 1.1 requires a decimal point before the exponent.
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
        if (!root.IsMap()) return fail(ErrorCode::Corrupt, where + " is not a YAML mapping");
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

bool is_nemo_archive(const std::filesystem::path& path) { return path.extension() == ".nemo"; }

}  // namespace roll::formats
