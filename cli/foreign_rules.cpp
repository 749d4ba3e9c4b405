#include "cli/foreign_rules.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "common/files.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// The keys of a configuration, the job file that is made from it, and the problems found.
struct Config {
    const Json& keys;
    const std::string& directory;
    Json& document;
    Foreign& foreign;

    void refuse(const std::string& key, const std::string& message) const {
        foreign.problems.push_back({key, message});
    }
    void set(const std::string& path, Json value) const {
        set_path(document, path, std::move(value));
    }
    // Sets a key of the job file to the default of the program that the configuration is written
    // for.
    void set_default(const std::string& key, const std::string& path, Json value) const {
        set(path, std::move(value));
        foreign.defaults.push_back({key, {path}});
    }
    bool has(const std::string& key) const { return keys.contains(key); }

    // Return the value of a key. Return nullopt if the key is missing or its value has another
    // type; a wrong type is reported as a problem.
    std::optional<double> number(const std::string& key) const {
        if (!has(key)) return std::nullopt;
        if (keys[key].is_number()) return keys[key].get<double>();
        refuse(key, fmt::format("is {}; allowed: a number", dump(keys[key])));
        return std::nullopt;
    }
    std::optional<std::string> text(const std::string& key) const {
        if (!has(key)) return std::nullopt;
        if (keys[key].is_string()) return keys[key].get<std::string>();
        refuse(key, fmt::format("is {}; allowed: text", dump(keys[key])));
        return std::nullopt;
    }
    bool flag(const std::string& key) const {
        if (!has(key)) return false;
        if (!keys[key].is_boolean())
            refuse(key, fmt::format("is {}; allowed: true or false", dump(keys[key])));
        return keys[key] == true;
    }
    // Returns the names in a list, or in a text that is separated by commas.
    std::vector<std::string> names(const std::string& key) const;
    std::string absolute(const std::string& path) const {
        return (fs::path(directory) / path).lexically_normal();
    }
};

std::vector<std::string> Config::names(const std::string& key) const {
    std::vector<std::string> found;
    if (!has(key)) return found;
    if (keys[key].is_array()) {
        for (const Json& one : keys[key])
            if (one.is_string()) found.push_back(one);
        return found;
    }
    std::string all = text(key).value_or("");
    for (std::size_t from = 0; from < all.size();) {
        const std::size_t end = std::min(all.find(',', from), all.size());
        std::string one = all.substr(from, end - from);
        one.erase(0, one.find_first_not_of(' '));
        one.erase(one.find_last_not_of(' ') + 1);
        if (!one.empty()) found.push_back(std::move(one));
        from = end + 1;
    }
    return found;
}

void read_name(const Config& config) {
    const auto output = config.text("output_dir");
    std::string name =
        config.text("run_name")
            .value_or(
                output ? fs::path(config.absolute(*output + "/.")).parent_path().filename().string()
                       : "train");
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
    if (name.empty() || std::isalnum(static_cast<unsigned char>(name[0])) == 0)
        name = "train-" + name;
    config.set("name", name.substr(0, 64));
    if (output) config.set("output", config.absolute(*output));
}

void read_model(const Config& config) {
    const auto model = config.text("model_name_or_path");
    if (!model) {
        if (!config.has("model_name_or_path"))
            config.refuse("model_name_or_path", "is missing; allowed: the directory of a model");
        return;
    }
    const std::string path = config.absolute(*model);
    std::error_code error;
    if (!fs::is_directory(path, error)) {
        return config.refuse("model_name_or_path",
                             fmt::format("is {}, which is not a directory; download the model: hf "
                                         "download {} --local-dir {}",
                                         *model, *model, *model));
    }
    config.set("model.from", path);
    if (const Json& keys = config.keys; keys.contains("tokenizer_name_or_path"))
        config.set("tokenizer", config.absolute(keys["tokenizer_name_or_path"]));
}

void read_stage(const Config& config) {
    const std::string stage =
        config.text("stage").value_or(config.has("finetuning_type") ? "sft" : "pt");
    if (stage == "pt" || stage == "sft") {
        config.set("objective", stage == "pt" ? "pretrain" : "sft");
    } else {
        config.refuse("stage", fmt::format("is {}; supported: pt, sft", stage));
    }
    const bool of_factory = config.has("stage") || config.has("dataset");
    const std::string type = config.text("finetuning_type").value_or(of_factory ? "lora" : "full");
    if (type != "full")
        config.refuse("finetuning_type",
                      fmt::format("is {}{}; supported: full", type,
                                  config.has("finetuning_type") ? "" : " by default"));
}

// Returns why Roll cannot read a data file; empty if Roll can read it.
std::string unreadable(const std::string& path) {
    const std::string kind = fs::path(path).extension();
    if (kind == ".jsonl" || kind == ".txt") return "";
    if (kind == ".json")
        return fmt::format(
            "is read from {0}; Roll reads .jsonl and .txt: jq -c '.[]' {0} > {1}.jsonl", path,
            fs::path(path).replace_extension().string());
    return fmt::format("is read from {}; Roll reads .jsonl and .txt", path);
}

// Reads LLaMA-Factory's dataset_info.json, which describes its data sets.
std::optional<Json> dataset_info(const Config& config) {
    const std::string path =
        config.absolute(config.text("dataset_dir").value_or("data")) + "/dataset_info.json";
    const auto text = read_file(path);
    if (!text) {
        config.refuse("dataset_dir", text.error().message);
        return std::nullopt;
    }
    auto json = parse_json(*text);
    if (json && json->is_object()) return *json;
    config.refuse("dataset_dir", fmt::format("{} is not a JSON object{}", path,
                                             json ? "" : ": " + json.error().message));
    return std::nullopt;
}

// Sets the job-file keys that name the fields of a data line, from the `columns` of a data set.
void read_columns(const Config& config, const Json& set) {
    const Json columns = set.value("columns", Json::object());
    const auto column = [&](const char* name, const char* standard) {
        return columns.value(name, Json(standard));
    };
    if (config.document.value("objective", "") == "pretrain") {
        config.set("data.field", column("prompt", "instruction"));
        return;
    }
    config.set("data.prompt_field", column("prompt", "instruction"));
    config.set("data.completion_field", column("response", "output"));
}

// Returns the absolute paths of the data files. The configuration's key `key` names data sets,
// and `info` names the files of each data set.
std::vector<std::string> files_of(const Config& config, const std::string& key, const Json& info) {
    std::vector<std::string> files;
    for (const std::string& name : config.names(key)) {
        if (!info.contains(name) || !info[name].is_object()) {
            config.refuse(key,
                          fmt::format("names {}, which dataset_info.json does not have", name));
            continue;
        }
        const Json& set = info[name];
        if (!set.contains("file_name") || !set["file_name"].is_string()) {
            config.refuse(key, fmt::format("names {}, which is not a local file; download it and "
                                           "set its file_name in dataset_info.json",
                                           name));
            continue;
        }
        const std::string folder = config.text("dataset_dir").value_or("data");
        const std::string path =
            config.absolute(folder + "/" + set["file_name"].get<std::string>());
        if (const std::string problem = unreadable(path); !problem.empty()) {
            config.refuse(key, fmt::format("names {}, which {}", name, problem));
            continue;
        }
        if (set.value("ranking", Json(false)) == true)
            config.refuse(key, fmt::format("names {}, whose lines are pairs of answers; preference "
                                           "training is not implemented",
                                           name));
        read_columns(config, set);
        files.push_back(path);
    }
    return files;
}

void read_data(const Config& config) {
    std::vector<std::string> train = config.names("train_file");
    for (std::string& path : train) path = config.absolute(path);
    std::vector<std::string> valid = config.names("validation_file");
    for (std::string& path : valid) path = config.absolute(path);
    if (config.has("dataset") || config.has("eval_dataset")) {
        const auto info = dataset_info(config);
        if (!info) return;
        for (std::string& path : files_of(config, "dataset", *info)) train.push_back(path);
        for (std::string& path : files_of(config, "eval_dataset", *info)) valid.push_back(path);
    }
    if (!train.empty()) config.set("data.train", train);
    const bool sized = config.document.contains(Json::json_pointer("/train/seq_length"));
    if (!sized) config.set_default("cutoff_len", "train.seq_length", 2048);
    const auto share = config.number("val_size");
    if (share && *share >= 1)
        config.refuse("val_size", fmt::format("is {}, a number of samples; allowed: a fraction "
                                              "below 1, or files with eval_dataset",
                                              *share));
    if (!valid.empty())
        config.set("data.valid", Json{{"eval", valid}});
    else
        config.set_default(share ? "val_size" : "no eval_dataset", "data.valid",
                           share.value_or(0.0));
}

// Refuses chat templates, because a job file's prompts and completions are used unchanged.
void check_template(const Config& config) {
    if (config.document.value("objective", "") != "sft" || !config.has("template")) return;
    const std::string name = config.text("template").value_or("");
    if (name != "empty")
        config.refuse(
            "template",
            fmt::format("is {}; supported: empty, because prompts and completions are used "
                        "unchanged; write the marks of the template into them",
                        name));
    if (config.flag("mask_history"))
        config.refuse("mask_history",
                      "is true; allowed: false, because a line has one prompt and one completion");
}

// Sets whether documents in one sequence attend to each other.
void read_packing(const Config& config) {
    const bool pretrains = config.document.value("objective", "") == "pretrain";
    const bool apart = config.flag("neat_packing") || config.flag("sequence_packing");
    const bool across = config.has("packing") ? config.flag("packing") : pretrains;
    config.set("data.attention", across && !apart ? "across_documents" : "within_documents");
    if (!apart && !across)
        config.foreign.remarks.push_back(
            "samples share sequences of train.seq_length tokens and do not see each other; "
            "per_device_train_batch_size counts these sequences, so a step has more samples");
}

void read_batch(const Config& config) {
    const char* key = config.has("per_gpu_train_batch_size") ? "per_gpu_train_batch_size"
                                                             : "per_device_train_batch_size";
    const double micro = config.number(key).value_or(8);
    const double accumulation = config.number("gradient_accumulation_steps").value_or(1);
    const auto is_size = [](double value) {
        return value >= 1 && value <= 1e9 && value == std::floor(value);
    };
    if (!is_size(micro))
        config.refuse(key, fmt::format("is {}; allowed: a positive integer", micro));
    if (!is_size(accumulation))
        config.refuse("gradient_accumulation_steps",
                      fmt::format("is {}; allowed: a positive integer", accumulation));
    if (!is_size(micro) || !is_size(accumulation)) return;
    const auto size = static_cast<std::int64_t>(micro);
    if (config.has(key))
        config.set("train.micro_batch_size", size);
    else
        config.set_default(key, "train.micro_batch_size", size);
    config.foreign.sequences_per_replica = size * static_cast<std::int64_t>(accumulation);
}

// Returns the number of steps; nullopt if the configuration gives none.
std::optional<std::int64_t> read_steps(const Config& config) {
    const auto steps = config.number("max_steps");
    if (steps && *steps > 0) {
        config.set("train.steps", static_cast<std::int64_t>(*steps));
        return static_cast<std::int64_t>(*steps);
    }
    config.refuse(
        "max_steps",
        fmt::format("is missing; Roll counts steps: replace num_train_epochs by max_steps: "
                    "{} x samples / (batch of all ranks)",
                    config.number("num_train_epochs").value_or(3)));
    return std::nullopt;
}

// Returns a number of steps; nullopt if `key` is not set. In the HuggingFace Trainer, a value
// below 1 is a share of all steps.
std::optional<std::int64_t> steps_of(const Config& config, const std::string& key,
                                     std::optional<std::int64_t> steps) {
    const auto value = config.number(key);
    if (!value) return std::nullopt;
    if (*value >= 1 || *value == 0) return static_cast<std::int64_t>(*value);
    if (*value < 0) {
        config.refuse(key, fmt::format("is {}; allowed: at least 0", *value));
        return std::nullopt;
    }
    return static_cast<std::int64_t>(std::ceil(*value * static_cast<double>(steps.value_or(1))));
}

void read_warmup(const Config& config, std::optional<std::int64_t> steps) {
    auto warmup = steps_of(config, "warmup_steps", steps);
    if (warmup.value_or(0) == 0) warmup = steps_of(config, "warmup_ratio", steps);
    config.set("train.optimizer.warmup_steps", warmup.value_or(0));
}

// Reads one entry of lr_scheduler_kwargs.
void read_schedule_entry(const Config& config, const std::string& key, const Json& value) {
    const std::string path = "lr_scheduler_kwargs." + key;
    const auto rename = [&](const char* to) {
        config.set(std::string("train.optimizer.") + to, value);
    };
    if (key == "min_lr") return rename("min_lr");
    if (key == "max_lr") return rename("lr");
    if (key == "init_lr") return rename("init_lr");
    if (key == "lr_decay_steps") return rename("decay_steps");
    if (key == "wsd_decay_steps" || key == "num_decay_steps") return rename("wsd_decay_steps");
    if (key == "lr_wsd_decay_style" || key == "decay_type")
        return config.set("train.optimizer.wsd_decay",
                          value == "1-sqrt" ? Json("minus_sqrt") : value);
    if (!(key == "min_lr_rate" || key == "min_lr_ratio") || !value.is_number())
        return config.refuse(path,
                             "is not supported; supported: min_lr, min_lr_rate, "
                             "min_lr_ratio, max_lr, init_lr, lr_decay_steps, "
                             "wsd_decay_steps, num_decay_steps, lr_wsd_decay_style, "
                             "decay_type");
    const double lr = config.number("learning_rate").value_or(5e-5);
    config.set("train.optimizer.min_lr", value.get<double>() * lr);
}

void read_schedule(const Config& config, bool megatron) {
    static const std::map<std::string, const char*> kSchedules{
        {"linear", "linear"},
        {"cosine", "cosine"},
        {"cosine_with_min_lr", "cosine"},
        {"cosine_warmup_with_min_lr", "cosine"},
        {"constant", "constant"},
        {"constant_with_warmup", "constant"},
        {"inverse_sqrt", "inverse-square-root"},
        {"warmup_stable_decay", "wsd"}};
    const std::string type = config.text("lr_scheduler_type").value_or("linear");
    const auto found = kSchedules.find(type);
    if (found == kSchedules.end())
        return config.refuse("lr_scheduler_type",
                             fmt::format("is {}; supported: linear, cosine, cosine_with_min_lr, "
                                         "constant, constant_with_warmup, inverse_sqrt, "
                                         "warmup_stable_decay",
                                         type));
    if (config.has("lr_scheduler_type"))
        config.set("train.optimizer.schedule", found->second);
    else
        config.set_default("lr_scheduler_type", "train.optimizer.schedule", "linear");
    if (found->second == std::string("wsd") && !megatron)
        config.set("train.optimizer.wsd_decay", "linear");
    if (!config.has("lr_scheduler_kwargs")) return;
    const Json& entries = config.keys["lr_scheduler_kwargs"];
    if (!entries.is_object())
        return config.refuse("lr_scheduler_kwargs", "is not a mapping; allowed: {min_lr: 1e-6}");
    for (const auto& [key, value] : entries.items()) read_schedule_entry(config, key, value);
}

void read_precision(const Config& config) {
    const bool narrow = config.flag("bf16") || config.flag("pure_bf16");
    config.set("train.precision", narrow ? "bf16" : "fp32");
    config.set("export.dtype", narrow ? "bf16" : "fp32");
    if (config.flag("pure_bf16"))
        config.foreign.remarks.push_back("pure_bf16: Roll keeps float32 main weights");
}

void read_saving(const Config& config, std::optional<std::int64_t> steps) {
    const std::string strategy = config.text("save_strategy").value_or("steps");
    if (strategy == "steps") {
        const auto every = steps_of(config, "save_steps", steps);
        if (every)
            config.set("checkpoint.every", *every);
        else
            config.set_default("save_steps", "checkpoint.every", 500);
    } else if (strategy == "best") {
        config.set("checkpoint.keep_best", true);
    } else if (strategy != "no") {
        config.refuse("save_strategy", fmt::format("is {}; supported: steps, best, no", strategy));
    }
    constexpr int kAll = 1'000'000'000;
    if (config.has("save_total_limit"))
        config.set("checkpoint.keep", config.keys["save_total_limit"]);
    else
        config.set_default("save_total_limit", "checkpoint.keep", kAll);
    if (config.flag("load_best_model_at_end")) config.set("checkpoint.keep_best", true);
}

void read_validation(const Config& config, std::optional<std::int64_t> steps) {
    const char* key = config.has("evaluation_strategy") ? "evaluation_strategy" : "eval_strategy";
    const std::string strategy = config.text(key).value_or("no");
    if (strategy == "steps") {
        auto every = steps_of(config, "eval_steps", steps);
        if (!every) every = steps_of(config, "logging_steps", steps);
        config.set("train.valid_every", every.value_or(500));
    } else if (strategy != "no") {
        config.refuse(key, fmt::format("is {}; supported: steps, no", strategy));
    }
    if (config.has("early_stopping_steps"))
        config.set("train.early_stop.patience", config.keys["early_stopping_steps"]);
}

void read_reports(const Config& config) {
    const auto names = config.names("report_to");
    const auto has = [&](const char* name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has("tensorboard") || has("all")) config.set("train.metrics.tensorboard", true);
}

// Chooses the tokens over which the loss is averaged: by default, mcore_adapter takes a mean per
// micro-batch, and the Trainer a mean over all tokens of a step.
void read_normalize(const Config& config, bool megatron) {
    const bool by_token = config.flag("calculate_per_token_loss");
    const char* normalize = by_token || !megatron ? "step" : "microbatch";
    if (config.has("calculate_per_token_loss"))
        config.set("train.normalize", normalize);
    else if (megatron)
        config.set_default("calculate_per_token_loss", "train.normalize", normalize);
}

// Reads the sizes of a replica. Requests one slot for each rank of a replica; --slots, --gpus and
// --nodes override this.
void read_layout(const Config& config) {
    std::int64_t ranks = 1;
    for (const char* key :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"}) {
        const double size = config.number(key).value_or(1);
        if (size >= 1 && size <= 4096) ranks *= static_cast<std::int64_t>(size);
    }
    // As in Megatron, sequence parallelism is off without tensor parallelism.
    if (config.flag("sequence_parallel") &&
        config.number("tensor_model_parallel_size").value_or(1) > 1)
        config.set("parallel.sequence", true);
    config.set("resources.nodes", 1);
    config.set("resources.slots_per_node", std::min<std::int64_t>(ranks, 4096));
}

}  // namespace

void set_path(Json& document, const std::string& path, Json value) {
    Json* at = &document;
    for (std::size_t from = 0; from <= path.size();) {
        const std::size_t end = std::min(path.find('.', from), path.size());
        at = &(*at)[path.substr(from, end - from)];
        from = end + 1;
    }
    *at = std::move(value);
}

void apply_rules(const Json& keys, const std::string& directory, bool megatron, Json& document,
                 Foreign& foreign) {
    const Config config{keys, directory, document, foreign};
    read_name(config);
    read_model(config);
    read_stage(config);
    read_data(config);
    check_template(config);
    read_packing(config);
    read_batch(config);
    const auto steps = read_steps(config);
    read_warmup(config, steps);
    read_schedule(config, megatron);
    read_precision(config);
    read_saving(config, steps);
    read_validation(config, steps);
    read_reports(config);
    read_normalize(config, megatron);
    read_layout(config);
}

}  // namespace roll::cli
