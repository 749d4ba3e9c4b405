// A directory with a model and data sets, and the configuration that the tests of foreign files
// change.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/foreign/foreign.hpp"
#include "common/spec/check/defaults.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// A directory with a model, two data sets and their dataset_info.json.
class ForeignFile : public testing::Test {
  public:
    ForeignFile() {
        std::filesystem::create_directories(base + "/model");
        std::filesystem::create_directories(base + "/other");
        std::filesystem::create_directories(base + "/data");
        std::filesystem::create_directories(base + "/more");
        const char* info = R"({
            "wiki": {"file_name": "wiki.jsonl", "columns": {"prompt": "text"}},
            "books": {"file_name": "books.jsonl"},
            "hub": {"hf_hub_url": "org/set"},
            "table": {"file_name": "table.arrow"},
            "list": {"file_name": "list.json", "columns": {"prompt": "text"}},
            "rows": {"file_name": "rows.parquet", "columns": {"prompt": "text"}},
            "pairs": {"file_name": "pairs.jsonl", "ranking": true},
            "labelled": {"file_name": "labelled.jsonl", "columns": {"kto_tag": "good"}},
            "chats": {"file_name": "chats.jsonl", "formatting": "sharegpt",
                "columns": {"messages": "dialog", "system": "rules"},
                "tags": {"role_tag": "who", "content_tag": "what", "user_tag": "me",
                         "assistant_tag": "it"}},
            "pictures": {"file_name": "p.jsonl", "columns": {"images": "images"}}})";
        std::ofstream(base + "/data/dataset_info.json") << info;
        std::ofstream(base + "/more/dataset_info.json") << info;
    }
    ~ForeignFile() override { std::filesystem::remove_all(base); }

    // Returns the configuration that all tests change.
    static Json config() {
        return Json::parse(R"({"model_name_or_path": "model", "stage": "pt",
            "finetuning_type": "full", "dataset": "wiki", "output_dir": "out/first",
            "per_device_train_batch_size": 2, "max_steps": 100})");
    }
    // Returns that configuration with other values. `others` is JSON.
    static Json config_with(const std::string& others) {
        Json changed = config();
        changed.update(Json::parse(others));
        return changed;
    }
    Json job(const Json& config) {
        Json document = config;
        foreign = translate(document, base);
        set_global_batch(foreign, document);
        return document;
    }
    // Returns the job file with all defaults, so that a value that is the default of its key is no
    // change.
    Json whole_job(const Json& config) {
        Json document = job(config);
        spec::fill_job(document, base);
        return document;
    }
    // Returns the messages of the problems, joined.
    std::string problems(const Json& config) {
        job(config);
        std::string all;
        for (const spec::Problem& one : foreign.problems)
            all += one.path + " " + one.message + "\n";
        return all;
    }

    const std::string base = testing::TempDir() + "foreign-" + std::to_string(::getpid());
    Foreign foreign;
};

// Keys that count only with others, and these others.
struct KeyWith {
    const char* key;
    const char* value;
    const char* others;
};
inline constexpr const char* kDpo = R"({"stage": "dpo", "dataset": "pairs"})";
inline constexpr const char* kKto = R"({"stage": "kto", "dataset": "labelled"})";
inline constexpr const char* kLora = R"({"finetuning_type": "lora"})";
// A configuration of TRL has neither a stage nor LLaMA-Factory's data sets.
inline constexpr const char* kTrlDpo =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "beta": 0.3})";
inline constexpr const char* kTrlSft =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "dataset_train_split": "train"})";
inline constexpr const char* kTrlLora =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "beta": 0.3, "use_peft": true, "lora_dropout": 0})";
inline constexpr KeyWith kWith[] = {
    {"pref_beta", "0.3", kDpo},
    {"pref_beta", "0.3", kKto},
    {"pref_loss", R"("simpo")", kDpo},
    {"pref_loss", R"("orpo")", kDpo},
    {"pref_loss", R"("ipo")", kDpo},
    {"pref_loss", R"("hinge")", kDpo},
    {"pref_ftx", "0.5", kDpo},
    {"dpo_label_smoothing", "0.1", kDpo},
    {"ref_model", R"("other")", kDpo},
    {"ref_model", R"("other")", kKto},
    {"simpo_gamma", "0.7", R"({"stage": "dpo", "dataset": "pairs", "pref_loss": "simpo"})"},
    {"kto_chosen_weight", "1.5", kKto},
    {"kto_rejected_weight", "0.5", kKto},
    {"lora_rank", "16", kLora},
    {"lora_alpha", "7", kLora},
    {"lora_target", R"("q_proj,v_proj")", kLora},
    {"lora_dropout", "0.1", kLora},
    {"use_rslora", "true", kLora},
    {"use_dora", "true", kLora},
    {"quantization_bit", "4", kLora},
    {"quantization_bit", "8", kLora},
    {"double_quantization", "false", R"({"finetuning_type": "lora", "quantization_bit": 4})"},
    {"beta", "0.2", kTrlDpo},
    {"loss_type", R"("ipo")", kTrlDpo},
    {"truncation_mode", R"("keep_end")", kTrlDpo},
    {"packing_strategy", R"("wrapped")",
     R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
         "dataset_train_split": "train", "packing": true})"},
    {"loss_type", R"(["hinge"])", kTrlDpo},
    {"loss_type", R"("simpo")", kTrlDpo},
    {"label_smoothing", "0.1", kTrlDpo},
    {"ref_model_name_or_path", R"("other")", kTrlDpo},
    {"cpo_alpha", "0.5", kTrlDpo},
    {"desirable_weight", "1.5", kTrlDpo},
    {"undesirable_weight", "0.5", kTrlDpo},
    {"center_rewards_coefficient", "0.01", kTrlSft},
    {"bf16", "false", kTrlDpo},
    {"optimizer_offload_fraction", "0", R"({"optimizer_cpu_offload": true})"},
    {"cpu_offloading", "true", R"({"cpu_offloading_num_layers": 1})"},
    {"cpu_offloading_num_layers", "2", R"({"cpu_offloading": true})"},
    {"cpu_offloading_activations", "false",
     R"({"cpu_offloading": true, "cpu_offloading_num_layers": 2})"},
    {"activation_offloading", "true", kTrlSft},
    {"lora_r", "4", kTrlLora},
    {"use_peft", "true", kTrlDpo},
    {"dataset_text_field", R"("story")", kTrlSft},
    {"lora_target_modules", R"(["o_proj"])", kTrlLora},
    {"lora_modules_to_save", R"(["lm_head"])", kTrlLora},
    {"load_in_4bit", "true", kTrlLora},
    {"load_in_8bit", "true", kTrlLora},
    {"use_bnb_nested_quant", "true",
     R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
         "beta": 0.3, "use_peft": true, "load_in_4bit": true})"},
    {"assistant_only_loss", "true",
     R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
         "dataset_train_split": "train", "completion_only_loss": false})"},
    {"calculate_per_token_loss", "true", R"({"tensor_model_parallel_size": 2})"},
    {"completion_only_loss", "false", kTrlSft},
    {"recompute_method", R"("block")", R"({"recompute_granularity": "full"})"},
    {"recompute_num_layers", "2", R"({"recompute_granularity": "full"})"},
    {"recompute_modules", R"(["mlp"])", R"({"recompute_granularity": "selective"})"}};

}  // namespace roll::cli
