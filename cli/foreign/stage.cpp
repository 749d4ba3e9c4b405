#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/foreign/parts.hpp"

namespace roll::cli {
namespace {

// Keys that only TRL's configurations have.
constexpr std::array kOfTrl{"beta",
                            "loss_type",
                            "desirable_weight",
                            "undesirable_weight",
                            "cpo_alpha",
                            "center_rewards_coefficient",
                            "precompute_ref_log_probs",
                            "use_weighting",
                            "f_divergence_type",
                            "completion_only_loss",
                            "assistant_only_loss",
                            "dataset_text_field",
                            "use_peft",
                            "truncation_mode",
                            "packing_strategy",
                            "dataset_train_split"};

// A configuration of TRL with one of these keys trains on preferences.
constexpr std::array kOfTrlPreferences{"beta",
                                       "desirable_weight",
                                       "undesirable_weight",
                                       "cpo_alpha",
                                       "simpo_gamma",
                                       "f_divergence_type",
                                       "use_weighting",
                                       "label_smoothing",
                                       "precompute_ref_log_probs",
                                       "center_rewards_coefficient"};

template <std::size_t N>
bool has_any(const Config& config, const std::array<const char*, N>& keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return config.has(key); });
}

// Copies the value of `key` to a key of the objective. Does nothing if `key` is not set.
void copy(const Config& config, const char* key, const char* to) {
    if (config.has(key)) config.set(std::string("objective.") + to, config.keys[key]);
}

// Like copy(), but uses the other program's default if `key` is not set.
void copy_or(const Config& config, const char* key, const char* to, Json usual) {
    if (config.has(key)) return copy(config, key, to);
    config.set_default(key, std::string("objective.") + to, std::move(usual));
}

void set_kind(const Config& config, const char* kind) { config.set("objective.kind", kind); }

void read_reference(const Config& config) {
    for (const char* const key : {"ref_model", "ref_model_name_or_path"})
        if (const auto model = config.text(key))
            config.set("objective.reference", config.absolute(*model));
}

// Refuses `key` if it has a value other than 0 or false. `what` names the objective or setting with
// which Roll does not support this key.
void refuse_set(const Config& config, const char* key, const std::string& what) {
    if (config.has(key) && config.keys[key] != 0 && config.keys[key] != false)
        config.refuse(key, fmt::format("is {}; Roll does not support this key with {}; remove it",
                                       dump(config.keys[key]), what));
}

// Adds the negative log-likelihood (NLL) of the chosen answers to the loss. Its weight is the value
// of `key` plus `always`. Also adds a remark, because Roll and the other program average the NLL in
// different ways.
void add_nll(const Config& config, const char* key, double always) {
    const double weight = config.number(key).value_or(0);
    if (weight == 0 && always == 0) return;
    config.set("objective.nll_weight", always + weight);
    config.foreign.remarks.push_back(
        "Roll averages the log-likelihood of the chosen answers over all their tokens in a step; "
        "the trainer of this configuration averages over the tokens of each answer, and then over "
        "the answers");
}

// Reads the stage dpo of LLaMA-Factory.
void read_pairs(const Config& config) {
    const std::string loss = config.text("pref_loss").value_or("sigmoid");
    if (loss == "sigmoid" || loss == "hinge" || loss == "ipo") {
        set_kind(config, "dpo");
        config.set("objective.loss", loss);
        if (loss == "sigmoid") copy(config, "dpo_label_smoothing", "label_smoothing");
        read_reference(config);
    } else if (loss == "orpo") {
        set_kind(config, "orpo");
    } else if (loss == "simpo") {
        set_kind(config, "simpo");
        copy_or(config, "simpo_gamma", "gamma", 0.5);
    } else {
        return config.refuse(
            "pref_loss", fmt::format("is {}; supported: sigmoid, hinge, ipo, orpo, simpo", loss));
    }
    copy_or(config, "pref_beta", "beta", 0.1);
    add_nll(config, "pref_ftx", loss == "orpo" ? 1 : 0);
}

// Reads the stage kto of LLaMA-Factory.
void read_labelled(const Config& config) {
    set_kind(config, "kto");
    copy_or(config, "pref_beta", "beta", 0.1);
    copy(config, "kto_chosen_weight", "desirable_weight");
    copy(config, "kto_rejected_weight", "undesirable_weight");
    refuse_set(config, "pref_ftx", "stage kto");
    read_reference(config);
}

// Reads the stage rm of LLaMA-Factory.
void read_scored(const Config& config) {
    set_kind(config, "reward");
    config.foreign.remarks.push_back(
        "with stage rm, Roll trains a model for sequence classification with one label, as TRL "
        "does; the trainer of this configuration would train a language model with an additional "
        "value head, which has a bias");
}

// Reads the options of the loss per token. The HuggingFace Trainer has these options in all stages.
void read_token_loss(const Config& config) {
    constexpr std::array<std::pair<const char*, const char*>, 2> kOptions{
        {{"label_smoothing_factor", "label_smoothing"}, {"neftune_noise_alpha", "neftune_alpha"}}};
    const bool of_tokens = !spec::is_preference(config.objective());
    for (const auto& [key, to] : kOptions) {
        if (!config.has(key) || config.keys[key] == 0) continue;
        if (!of_tokens) {
            refuse_set(config, key, "objective " + config.objective());
            continue;
        }
        config.set("objective", Json{{"kind", config.objective()}});
        break;
    }
    if (!of_tokens || !config.document["objective"].is_object()) return;
    for (const auto& [key, to] : kOptions) copy(config, key, to);
}

// Returns the loss of a configuration of TRL. The value is a text, or a list with one text.
std::string trl_loss(const Config& config) {
    const std::vector<std::string> names = config.names("loss_type");
    if (names.size() > 1) config.refuse("loss_type", "has several losses; supported: one");
    return names.empty() ? "" : names.front();
}

// Reads the preference stages of TRL. TRL has one script for each of these stages.
void read_trl_preferences(const Config& config) {
    const std::string loss = trl_loss(config);
    const bool labelled = loss == "kto" || loss == "apo_zero_unpaired" ||
                          config.has("desirable_weight") || config.has("undesirable_weight");
    if (config.has("center_rewards_coefficient")) {
        set_kind(config, "reward");
        return copy(config, "center_rewards_coefficient", "center_rewards_coefficient");
    }
    const bool of_cpo = config.has("cpo_alpha") || config.has("simpo_gamma") || loss == "simpo";
    copy_or(config, "beta", "beta", 0.1);
    if (labelled) {
        set_kind(config, "kto");
        if (!loss.empty()) config.set("objective.loss", loss);
        copy(config, "desirable_weight", "desirable_weight");
        copy(config, "undesirable_weight", "undesirable_weight");
    } else if (loss == "simpo") {
        set_kind(config, "simpo");
        copy_or(config, "simpo_gamma", "gamma", 0.5);
        copy_or(config, "cpo_alpha", "nll_weight", 1.0);
    } else {
        set_kind(config, of_cpo ? "cpo" : "dpo");
        if (!loss.empty()) config.set("objective.loss", loss);
        copy(config, "cpo_alpha", "nll_weight");
    }
    if (!labelled) copy(config, "label_smoothing", "label_smoothing");
    if (labelled || !of_cpo) read_reference(config);
}

// Infers the stage of a configuration of TRL.
void read_trl_stage(const Config& config) {
    const std::string loss = trl_loss(config);
    const bool of_tokens = loss == "nll" || loss == "chunked_nll" ||
                           (loss.empty() && !has_any(config, kOfTrlPreferences));
    if (of_tokens) {
        config.set("objective", "sft");
        config.set("data.texts", true);
        if (config.flag("assistant_only_loss"))
            config.set("data.train_on", "assistant");
        else if (config.has("completion_only_loss") && !config.flag("completion_only_loss"))
            config.set("data.train_on", "all");
    } else {
        read_trl_preferences(config);
    }
    config.foreign.remarks.push_back(fmt::format(
        "TRL takes the objective from its command line, not from this file; Roll chose objective "
        "{} because of the keys of this file",
        config.objective()));
}

void refuse_stage(const Config& config, const std::string& stage) {
    config.refuse("stage", fmt::format("is {}; supported: pt, sft, rm, dpo, kto", stage));
}

// Returns the names of the linear layers that get LoRA, or "all-linear".
Json lora_targets(const Config& config, const char* key, Json usual) {
    const std::vector<std::string> names = config.names(key);
    if (names.empty()) return usual;
    if (names.size() == 1 && (names[0] == "all" || names[0] == "all-linear")) return "all-linear";
    return names;
}

// Sets how the frozen weights are quantized, as in bitsandbytes: to 8 bits, or to 4 bits with the
// table nf4. `type` is the name of the key that selects the 4-bit table. `nested` is the name of
// the key that says whether the scales are quantized, too.
void set_base(const Config& config, int bits, const char* type, const char* nested,
              bool nested_by_default) {
    if (bits == 8) return config.set("train.lora.base", "int8");
    const std::string table = config.text(type).value_or("nf4");
    if (table != "nf4") return config.refuse(type, fmt::format("is {}; supported: nf4", table));
    config.set("train.lora.base", "nf4");
    if (config.has(nested) ? config.flag(nested) : nested_by_default)
        config.set("train.lora.double_quantization", true);
}

// Reads LLaMA-Factory's quantization of the frozen weights.
void read_factory_base(const Config& config, bool is_lora) {
    const auto bits = config.number("quantization_bit");
    if (!bits) return;
    const std::string method = config.text("quantization_method").value_or("bnb");
    if (*bits != 4 && *bits != 8)
        return config.refuse("quantization_bit", fmt::format("is {}; supported: 4, 8", *bits));
    if (method != "bnb" && method != "bitsandbytes")
        return config.refuse("quantization_method", fmt::format("is {}; supported: bnb", method));
    if (!is_lora)
        return config.refuse("quantization_bit",
                             "needs finetuning_type lora, because quantized weights are frozen");
    set_base(config, static_cast<int>(*bits), "quantization_type", "double_quantization", true);
}

// Reads TRL's quantization of the frozen weights.
void read_trl_base(const Config& config, bool is_lora) {
    const bool is_4 = config.flag("load_in_4bit"), is_8 = config.flag("load_in_8bit");
    const char* const key = is_4 ? "load_in_4bit" : "load_in_8bit";
    if (!is_4 && !is_8) return;
    if (is_4 && is_8)
        return config.refuse(key,
                             "cannot be true together with load_in_8bit; set only one of the two");
    if (!is_lora) return config.refuse(key, "needs use_peft, because quantized weights are frozen");
    set_base(config, is_4 ? 4 : 8, "bnb_4bit_quant_type", "use_bnb_nested_quant", false);
}

void set_lora(const Config& config, const std::string& key, double rank) {
    config.set("train.lora.r", static_cast<std::int64_t>(rank));
    if (const auto alpha = config.number("lora_alpha"))
        config.set("train.lora.alpha", *alpha);
    else
        config.set_default("lora_alpha", "train.lora.alpha",
                           key == "lora_r" ? 32 : static_cast<std::int64_t>(2 * rank));
    if (config.flag("use_rslora")) config.set("train.lora.rslora", true);
    if (config.flag("use_dora")) config.set("train.lora.dora", true);
    // When LLaMA-Factory and TRL train on preferences, they turn off dropout everywhere.
    const double usual = key == "lora_r" ? 0.05 : 0;
    const double dropout =
        spec::is_preference(config.objective()) ? 0 : config.number("lora_dropout").value_or(usual);
    if (dropout > 0) config.set("train.lora.dropout", dropout);
}

// Returns the directories of the adapters in LLaMA-Factory's adapter_name_or_path.
std::vector<std::string> adapters_of(const Config& config) {
    std::vector<std::string> adapters = config.names("adapter_name_or_path");
    const auto folder = config.text("adapter_folder");
    for (std::string& adapter : adapters)
        adapter = config.absolute(folder ? adapter + "/" + *folder : adapter);
    return adapters;
}

// Reads the adapters with which LLaMA-Factory starts. LLaMA-Factory merges these adapters into the
// model and trains a new adapter. Without create_new_adapter, LLaMA-Factory does not merge the last
// adapter, but trains it further. Returns true in this second case. The settings of the last
// adapter then replace the settings in the file.
bool trains_adapter_further(const Config& config) {
    std::vector<std::string> adapters = adapters_of(config);
    const bool goes_on = !adapters.empty() && !config.flag("create_new_adapter");
    if (goes_on) {
        config.set("train.lora.from", adapters.back());
        adapters.pop_back();
        // If an adapter is trained further, LLaMA-Factory's reference is the model without this
        // adapter.
        const Json::json_pointer from("/model/from"), reference("/objective/reference");
        const std::string objective = config.objective();
        if ((objective == "dpo" || objective == "kto") && config.document.contains(from) &&
            !config.document.contains(reference))
            config.set("objective.reference", config.document[from]);
    }
    if (!adapters.empty()) config.set("model.adapters", adapters);
    return goes_on;
}

}  // namespace

bool is_of_trl(const Config& config) {
    return !config.has("stage") && !config.has("finetuning_type") && has_any(config, kOfTrl);
}

void read_stage(const Config& config) {
    const std::string stage =
        config.text("stage").value_or(config.has("finetuning_type") ? "sft" : "pt");
    if (is_of_trl(config))
        read_trl_stage(config);
    else if (stage == "pt" || stage == "sft")
        config.set("objective", stage == "pt" ? "pretrain" : "sft");
    else if (stage == "dpo")
        read_pairs(config);
    else if (stage == "kto")
        read_labelled(config);
    else if (stage == "rm")
        read_scored(config);
    else
        refuse_stage(config, stage);
    if (config.document.contains("objective")) read_token_loss(config);
}

void read_lora(const Config& config) {
    if (is_of_trl(config)) {
        read_trl_base(config, config.flag("use_peft"));
        if (!config.flag("use_peft")) return;
        set_lora(config, "lora_r", config.number("lora_r").value_or(16));
        if (const auto names = config.names("lora_modules_to_save"); !names.empty())
            config.set("train.lora.modules_to_save", names);
        // PEFT's default targets for a Llama model
        return config.set("train.lora.targets",
                          lora_targets(config, "lora_target_modules", Json{"q_proj", "v_proj"}));
    }
    const bool of_factory = config.has("stage") || config.has("dataset");
    const std::string type = config.text("finetuning_type").value_or(of_factory ? "lora" : "full");
    read_factory_base(config, type == "lora");
    if (type == "lora") {
        if (!config.has("finetuning_type"))
            config.foreign.remarks.push_back("finetuning_type is lora by default");
        if (config.has("loraplus_lr_ratio"))
            config.set("train.lora.lr_ratio", config.keys["loraplus_lr_ratio"]);
        if (const auto names = config.names("additional_target"); !names.empty())
            config.set("train.lora.modules_to_save", names);
        if (trains_adapter_further(config)) return;
        set_lora(config, "lora_rank", config.number("lora_rank").value_or(8));
        config.set("train.lora.targets", lora_targets(config, "lora_target", "all-linear"));
    } else if (config.has("adapter_name_or_path")) {
        config.refuse("adapter_name_or_path", "needs finetuning_type lora");
    } else if (type != "full") {
        config.refuse("finetuning_type", fmt::format("is {}; supported: full, lora", type));
    }
}

}  // namespace roll::cli
