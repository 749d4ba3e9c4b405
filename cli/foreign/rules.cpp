#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "cli/foreign/parts.hpp"
#include "common/hub_cache.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

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
    std::string path = config.absolute(*model);
    std::error_code error;
    if (!fs::is_directory(path, error)) {
        const auto cached = cached_snapshot(*model, HubKind::Model);
        if (!cached)
            return config.refuse(
                "model_name_or_path",
                fmt::format("is {}, which is neither a directory nor in HuggingFace's cache; "
                            "download the model: hf download {}",
                            *model, *model));
        path = *cached;
    }
    config.set("model.from", path);
    if (const Json& keys = config.keys; keys.contains("tokenizer_name_or_path"))
        config.set("tokenizer", config.absolute(keys["tokenizer_name_or_path"]));
}

// Sets data.packing and data.truncate as TRL packs documents into sequences, and as TRL truncates
// documents that are too long.
void read_trl_rows(const Config& config) {
    const std::string mode = config.text("truncation_mode").value_or("keep_start");
    if (mode != "keep_start" && mode != "keep_end")
        config.refuse("truncation_mode",
                      fmt::format("is {}; supported: keep_start, keep_end", mode));
    const std::string objective = config.objective();
    if (objective == "sft" && config.flag("packing")) {
        const std::string strategy = config.text("packing_strategy").value_or("bfd");
        if (strategy != "bfd" && strategy != "bfd_split" && strategy != "wrapped")
            return config.refuse(
                "packing_strategy",
                fmt::format("is {}; supported: bfd, bfd_split, wrapped", strategy));
        config.set("data.packing", strategy == "wrapped" ? "wrapped" : "best_fit");
        if (strategy == "bfd_split") config.set("data.truncate", "split");
    } else if (objective == "reward") {
        config.set("data.truncate", "drop");  // like TRL, leave out long pairs
    } else if (mode == "keep_end") {
        config.set("data.truncate", "start");
    }
}

// Sets whether tokens attend to other documents in the same sequence.
void read_packing(const Config& config) {
    if (is_of_trl(config)) read_trl_rows(config);
    if (spec::is_preference(config.objective())) return;  // preference data is never packed
    const bool pretrains = config.objective() == "pretrain";
    const bool apart = config.flag("neat_packing") || config.flag("sequence_packing");
    const bool across = config.has("packing") ? config.flag("packing") : pretrains;
    config.set("data.attention", across && !apart ? "across_documents" : "within_documents");
    if (!apart && !across)
        config.foreign.remarks.push_back(
            "several samples share a sequence of train.seq_length tokens and do not attend to each "
            "other; per_device_train_batch_size counts these sequences, so a step trains on more "
            "samples");
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

// Sets the length of the training. Returns the number of steps; nullopt if the configuration gives
// a number of epochs.
std::optional<std::int64_t> read_steps(const Config& config) {
    const auto steps = config.number("max_steps");
    if (steps && *steps > 0) {
        config.set("train.steps", static_cast<std::int64_t>(*steps));
        return static_cast<std::int64_t>(*steps);
    }
    const auto epochs = config.number("num_train_epochs");
    if (epochs && *epochs <= 0)
        config.refuse("num_train_epochs", fmt::format("is {}; allowed: more than 0", *epochs));
    if (config.has("num_train_epochs"))
        config.set("train.epochs", config.keys["num_train_epochs"]);
    else
        config.set_default("num_train_epochs", "train.epochs", 3);
    return std::nullopt;
}

// Returns the number of steps in `key`; nullopt if `key` is not set. As in the HuggingFace Trainer,
// a value below 1 is a share of `steps`, the number of all steps.
std::optional<std::int64_t> steps_of(const Config& config, const std::string& key,
                                     std::optional<std::int64_t> steps) {
    const auto value = config.number(key);
    if (!value) return std::nullopt;
    if (*value >= 1 || *value == 0) return static_cast<std::int64_t>(*value);
    if (*value < 0) {
        config.refuse(key, fmt::format("is {}; allowed: at least 0", *value));
        return std::nullopt;
    }
    if (!steps) {
        config.refuse(key, fmt::format("is {}, a fraction of all steps; with num_train_epochs, set "
                                       "this key to a number of steps",
                                       *value));
        return std::nullopt;
    }
    return static_cast<std::int64_t>(std::ceil(*value * static_cast<double>(*steps)));
}

void read_warmup(const Config& config, std::optional<std::int64_t> steps) {
    const bool counted = config.number("warmup_steps").value_or(0) >= 1;
    const char* const share =
        config.number("warmup_steps").value_or(0) > 0 ? "warmup_steps" : "warmup_ratio";
    const auto ratio = config.number(share);
    if (!steps && !counted && ratio && *ratio > 0)  // the number of steps is not known yet
        return config.set("train.optimizer.warmup_ratio", *ratio);
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
    const bool half = config.flag("fp16");
    const bool usual = is_of_trl(config) && !config.has("bf16") && !half;
    const bool narrow = usual || config.flag("bf16") || config.flag("pure_bf16");
    if (half && narrow)
        return config.refuse("fp16",
                             "is true, and bf16 is also true; set only one of them to true");
    const char* const precision = half ? "fp16" : narrow ? "bf16" : "fp32";
    if (usual)
        config.set_default("bf16", "train.precision", precision);
    else
        config.set("train.precision", precision);
    config.set("export.dtype", precision);
    if (config.flag("pure_bf16"))
        config.foreign.remarks.push_back(
            "pure_bf16: the optimizer of Roll also keeps main weights in float32");
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

// Returns Roll's name of a metric of transformers' evaluations; nullopt if Roll does not measure
// it. In transformers, the loss of the evaluation set NAME is called eval_NAME_loss.
std::optional<std::string> metric_named(std::string name) {
    constexpr std::string_view kPrefix = "eval_", kLoss = "_loss";
    if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
    if (name == "loss" || name == "nll_loss" || name.starts_with("rewards/") ||
        name.starts_with("logps/"))
        return "valid_" + name;
    if (!name.ends_with(kLoss)) return std::nullopt;
    return "valid_loss/" + name.substr(0, name.size() - kLoss.size());
}

// Reads the metric that decides which checkpoint is the best and when training stops early.
void read_best_metric(const Config& config) {
    const bool keeps = config.flag("load_best_model_at_end") ||
                       config.text("save_strategy").value_or("") == "best";
    const bool stops = config.has("early_stopping_steps");
    const auto named = config.text("metric_for_best_model");
    if (!keeps && !stops) return;
    const auto metric = metric_named(named.value_or("loss"));
    if (!metric)
        return config.refuse(
            "metric_for_best_model",
            fmt::format(
                "is {}; supported: loss, eval_loss, eval_SET_loss (SET: the name of a set in "
                "data.valid) and, in preference jobs, metrics that begin with rewards/ or "
                "logps/",
                *named));
    const auto set = [&](const char* section) {
        if (named) config.set(std::string("train.") + section + ".metric", *metric);
        if (config.has("greater_is_better"))
            config.set(std::string("train.") + section + ".mode",
                       config.flag("greater_is_better") ? "max" : "min");
    };
    if (keeps) set("best");
    if (stops) set("early_stop");
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
    for (const char* const tracker : {"wandb", "mlflow"})
        if (has(tracker))
            config.foreign.remarks.push_back(fmt::format(
                "report_to {0}: a separate program copies the metrics to {0}, during training or "
                "afterwards: python3 -m rollctl.trackers OUTPUT --{0} DIR --follow "
                "(docs/python.md)",
                tracker));
}

// Sets how the loss is averaged. By default, mcore_adapter averages over the tokens of each
// micro-batch, and the HuggingFace Trainer averages over all tokens of a step.
void read_normalize(const Config& config, bool megatron) {
    const bool by_token = config.flag("calculate_per_token_loss");
    const char* normalize = by_token || !megatron ? "step" : "microbatch";
    if (config.has("calculate_per_token_loss"))
        config.set("train.normalize", normalize);
    else if (megatron)
        config.set_default("calculate_per_token_loss", "train.normalize", normalize);
}

// Sets parallel.recompute, which selects the activations that backward recomputes. With Megatron's
// granularity `selective`, backward recomputes the modules in recompute_modules; the default is
// `core_attn`.
void read_recompute(const Config& config) {
    const auto granularity = config.text("recompute_granularity");
    const bool checkpoints =
        config.flag("gradient_checkpointing") || config.flag("activation_checkpointing");
    if (granularity == "selective") {
        const auto modules = config.names("recompute_modules");
        const auto has = [&](const char* name) { return std::ranges::count(modules, name) > 0; };
        const bool attention = modules.empty() || has("core_attn");
        for (const std::string& name : modules)
            if (name != "core_attn" && name != "mlp")
                config.foreign.remarks.push_back(
                    fmt::format("recompute_modules: Roll does not recompute {}", name));
        if (attention || has("mlp"))
            config.set("parallel.recompute", attention && has("mlp") ? "attention+mlp"
                                             : attention             ? "attention"
                                                                     : "mlp");
    } else if (granularity == "full" || (!granularity && checkpoints)) {
        config.set("parallel.recompute", "full");
        if (const auto method = config.text("recompute_method"))
            config.set("parallel.recompute_method", *method);
        if (config.has("recompute_num_layers"))
            config.set("parallel.recompute_layers", config.keys["recompute_num_layers"]);
    } else if (granularity) {
        config.refuse("recompute_granularity",
                      fmt::format("is {}; supported: full, selective", *granularity));
    }
}

// Reads the tensor-, pipeline- and context-parallel sizes. Their product is the number of ranks of
// a model replica. Requests one slot for each of these ranks. The options --slots, --gpus and
// --nodes override this request.
void read_layout(const Config& config) {
    std::int64_t ranks = 1;
    for (const char* key :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"}) {
        const double size = config.number(key).value_or(1);
        if (size >= 1 && size <= 4096) ranks *= static_cast<std::int64_t>(size);
    }
    // Megatron ignores sequence parallelism if there is no tensor parallelism.
    if (config.flag("sequence_parallel") &&
        config.number("tensor_model_parallel_size").value_or(1) > 1)
        config.set("parallel.sequence", true);
    config.set("resources.nodes", 1);
    config.set("resources.slots_per_node", std::min<std::int64_t>(ranks, 4096));
}

}  // namespace

void apply_rules(const Json& keys, const std::string& directory, bool megatron, Json& document,
                 Foreign& foreign) {
    const Config config{keys, directory, document, foreign};
    read_name(config);
    read_model(config);
    read_stage(config);
    read_lora(config);
    if (is_of_trl(config) && spec::is_preference(config.objective()) &&
        !config.has("learning_rate"))
        config.set("train.optimizer.lr", 1e-6);
    read_data(config);
    read_template(config);
    read_packing(config);
    read_batch(config);
    const auto steps = read_steps(config);
    read_warmup(config, steps);
    read_schedule(config, megatron);
    read_optimizer(config);
    read_offload(config);
    read_precision(config);
    read_saving(config, steps);
    read_best_metric(config);
    read_validation(config, steps);
    read_reports(config);
    read_normalize(config, megatron);
    read_layout(config);
    read_sharding(config);
    read_recompute(config);
}

}  // namespace roll::cli
