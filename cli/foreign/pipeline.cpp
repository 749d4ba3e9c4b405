#include <algorithm>

#include "cli/foreign/parts.hpp"
#include "cli/foreign/table.hpp"

namespace roll::cli {
namespace {

constexpr const char* kWorkers[] = {"sft_train", "actor_train"};

const char* worker_of(const Json& document) {
    return kWorkers[document.contains("sft_train") ? 0 : 1];
}

// The results of reading a pipeline's file: a flat configuration, columns and problems.
struct Pipeline {
    std::string worker;
    Json& flat;
    Json& columns;
    Foreign& foreign;
};

// Returns the path in the form of pipeline.json: with WORKER in place of the worker's name.
std::string table_path(const Pipeline& pipeline, const std::string& path) {
    const std::string& worker = pipeline.worker;
    const bool is_of_worker = path == worker || path.starts_with(worker + ".");
    return is_of_worker ? "WORKER" + path.substr(worker.size()) : path;
}

// Returns true if the table has keys below `path`.
bool has_below(const OrderedJson& table, const std::string& path) {
    const auto keys = table.items();
    return std::any_of(keys.begin(), keys.end(),
                       [&](const auto& entry) { return entry.key().starts_with(path + "."); });
}

// Reads the value at a path. `entry` is the path's entry in schemas/foreign/pipeline.json.
void read(const Pipeline& pipeline, const std::string& path, const Json& value,
          const OrderedJson& entry) {
    if (entry.contains("to")) {
        const Json given = entry.contains("yes") ? Json(value == Json(entry["yes"])) : value;
        pipeline.flat[entry["to"].get<std::string>()] = given;
        if (entry.contains("note") && value != 1)
            pipeline.foreign.remarks.push_back(
                fmt::format("{}: {}", path, entry["note"].get<std::string>()));
    } else if (entry.contains("column")) {
        pipeline.columns[entry["column"].get<std::string>()] = value;
    } else if (entry.contains("flat")) {
        pipeline.flat[path.substr(path.rfind('.') + 1)] = value;
    } else if (entry.contains("only") &&
               std::none_of(entry["only"].begin(), entry["only"].end(),
                            [&](const OrderedJson& one) { return Json(one) == value; })) {
        pipeline.foreign.problems.push_back(
            {path, fmt::format("is {}: {}", dump(value), entry["refused"].get<std::string>())});
    } else {
        pipeline.foreign.no_effect.push_back(
            fmt::format("{}: {}", path, entry["no_effect"].get<std::string>()));
    }
}

bool is_variable(const Json& value) {
    return value.is_string() && value.get<std::string>().find("${") != std::string::npos;
}

// Reads the value at a path, and all values below it. Uses the entry of the path in
// schemas/foreign/pipeline.json. If the path has no entry, uses the entry of the path's parent.
void walk(const Pipeline& pipeline, const std::string& path, const Json& value) {
    const OrderedJson& table = pipeline_table()["keys"];
    const std::string own = table_path(pipeline, path);
    const auto exact = table.find(own);
    const auto above = table.find(own.substr(0, std::min(own.rfind('.'), own.size())));
    if (value.is_null()) return;
    const bool is_flat = exact != table.end() && exact->contains("flat");
    if (value.is_object() && (is_flat || has_below(table, own))) {
        for (const auto& [key, inner] : value.items()) walk(pipeline, path + "." + key, inner);
    } else if (is_variable(value)) {
        pipeline.foreign.problems.push_back(
            {path, fmt::format("is {}; write the value itself, because Roll does not resolve "
                               "variables of OmegaConf",
                               dump(value))});
    } else if (exact != table.end()) {
        read(pipeline, path, value, *exact);
    } else if (above != table.end()) {
        read(pipeline, path, value, *above);
    } else {
        pipeline.foreign.problems.push_back({path, "is not a key of ROLL's SFT and DPO pipelines"});
    }
}

// Returns the configuration of DeepSpeed. In ROLL's examples, a variable such as
// ${deepspeed_zero3_cpuoffload} stands for the configuration. The digit is the stage of ZeRO.
Json deepspeed_of(const Json& config) {
    constexpr std::string_view kName = "${deepspeed_zero";
    if (!config.is_string()) return config;
    const std::string& name = config.get_ref<const std::string&>();
    const char stage =
        name.starts_with(kName) && name.size() > kName.size() ? name[kName.size()] : 0;
    if (stage != '2' && stage != '3') return config;
    return {{"zero_optimization", {{"stage", stage - '0'}}}};
}

// Reads the strategies of ROLL that shard a model over the data-parallel ranks. Removes the
// configuration of DeepSpeed from the worker, because DeepSpeed's keys are not keys of ROLL.
void read_strategy(const Pipeline& pipeline, Json& worker) {
    Json strategy = worker.value("strategy_args", Json());
    if (!strategy.is_object()) return;
    const Json config = deepspeed_of(strategy.value("strategy_config", Json::object()));
    if (strategy.value("strategy_name", Json()) == "fsdp2_train") {
        pipeline.flat["fsdp"] = true;
        if (config.is_object() && config.contains("reshard_after_forward"))
            pipeline.flat["fsdp_config"]["reshard_after_forward"] = config["reshard_after_forward"];
    } else if (strategy.value("strategy_name", Json()) == "deepspeed_train" && config.is_object()) {
        pipeline.flat["deepspeed"] = config;
        worker["strategy_args"].erase("strategy_config");
    }
}

}  // namespace

bool is_pipeline(const Json& document) {
    return document.is_object() && !document.contains("kind") && document.contains("pretrain") &&
           std::ranges::any_of(kWorkers, [&](const char* worker) {
               return document.contains(worker) && document[worker].is_object();
           });
}

bool trains_with_megatron(const Json& document) {
    const Json strategy = document[worker_of(document)].value("strategy_args", Json());
    return strategy.is_object() && strategy.value("strategy_name", Json()) == "megatron_train";
}

Json flattened(const Json& document, Json& columns, Foreign& foreign) {
    const std::string worker = worker_of(document);
    Json flat = {{"stage", worker == kWorkers[0] ? "sft" : "dpo"}};
    const Pipeline pipeline{worker, flat, columns, foreign};
    Json rest = document;
    read_strategy(pipeline, rest[pipeline.worker]);
    for (const auto& [key, value] : rest.items()) walk(pipeline, key, value);
    flat["finetuning_type"] = flat.contains("lora_rank") ? "lora" : "full";
    if (flat.contains("eval_steps") && flat.contains("validation_file"))
        flat["eval_strategy"] = "steps";
    return flat;
}

}  // namespace roll::cli
