#include "cli/foreign/foreign.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/foreign/parts.hpp"
#include "cli/foreign/table.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/nearest.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {
namespace {

// Keys that only configurations of the HuggingFace Trainer and related programs have.
constexpr const char* kMarks[] = {"model_name_or_path",
                                  "per_device_train_batch_size",
                                  "gradient_accumulation_steps",
                                  "finetuning_type",
                                  "cutoff_len",
                                  "num_train_epochs",
                                  "lr_scheduler_type",
                                  "output_dir",
                                  "tensor_model_parallel_size",
                                  "pipeline_model_parallel_size"};

bool is_one_of(const OrderedJson& values, const Json& value) {
    return std::any_of(values.begin(), values.end(),
                       [&](const OrderedJson& one) { return Json(one) == value; });
}

std::vector<std::string> paths_of(const OrderedJson& entry) {
    if (entry.contains("to")) return {entry["to"].get<std::string>()};
    return entry.value("rule", std::vector<std::string>());
}

// Reads one key of the configuration. `entry` is the key's entry in schemas/foreign/trainer.json.
// Does nothing for a key whose entry has a `rule`, because apply_rules() reads such keys.
void read_key(const std::string& key, const Json& value, const OrderedJson& entry, Json& document,
              Foreign& foreign) {
    if (entry.contains("to")) {
        set_path(document, entry["to"], value);
    } else if (entry.contains("only") && !is_one_of(entry["only"], value)) {
        foreign.problems.push_back(
            {key, fmt::format("is {}: {}", dump(value), entry["refused"].get<std::string>())});
    } else if (entry.contains("no_effect")) {
        foreign.no_effect.push_back(
            fmt::format("{}: {}", key, entry["no_effect"].get<std::string>()));
    }
}

void refuse_unknown(const Json& config, const OrderedJson& table, Foreign& foreign) {
    std::vector<std::string> known;
    for (const auto& [key, entry] : table.items()) known.push_back(key);
    for (const auto& [key, value] : config.items()) {
        if (table.contains(key)) continue;
        foreign.problems.push_back({key, fmt::format("is not a key of {}{}", foreign_programs(),
                                                     spec::did_you_mean(key, known))});
    }
}

void apply_defaults(const Json& config, const OrderedJson& table, Json& document,
                    Foreign& foreign) {
    for (const auto& [key, entry] : table.items()) {
        if (!entry.contains("default") || config.contains(key)) continue;
        set_path(document, entry["to"], Json(entry["default"]));
        foreign.defaults.push_back({key, paths_of(entry)});
    }
}

// Returns the positive integer at a path; 1 if there is no such integer.
std::int64_t size_at(const Json& document, const char* pointer) {
    const Json::json_pointer at(pointer);
    if (!document.contains(at) || !document[at].is_number_integer()) return 1;
    return std::clamp<std::int64_t>(document[at].get<std::int64_t>(), 1, 1'000'000);
}

bool on_gpus(const Json& document) {
    const Json::json_pointer gpus("/resources/gpus_per_node");
    return document.contains(gpus) && document[gpus].is_number() &&
           document[gpus].get<double>() > 0;
}

// Returns "PATH VALUE, PATH VALUE" for the paths that exist in the document.
std::string values_of(const std::vector<std::string>& paths, const Json& document) {
    std::string text;
    for (std::string path : paths) {
        const std::string name = path;
        std::replace(path.begin(), path.end(), '.', '/');
        const Json::json_pointer at("/" + path);
        if (!document.contains(at) || document[at].is_object()) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, dump(document[at]));
    }
    return text;
}

}  // namespace

std::string foreign_programs() { return foreign_table()["programs"]; }

bool is_foreign(const Json& document) {
    if (!document.is_object() || document.contains("kind")) return false;
    if (is_pipeline(document)) return true;
    return std::count_if(std::begin(kMarks), std::end(kMarks),
                         [&](const char* key) { return document.contains(key); }) >= 2;
}

Foreign translate(Json& document, const std::string& directory) {
    const OrderedJson& table = foreign_table()["keys"];
    Foreign foreign;
    Json config = Json::object(), columns = Json::object();
    const bool pipeline = is_pipeline(document);
    bool megatron = pipeline && trains_with_megatron(document);
    const Json given = pipeline ? flattened(document, columns, foreign) : document;
    for (const auto& [key, value] : given.items())
        if (!value.is_null()) config[key] = value;  // in a configuration, null means the default
    document = {{"kind", "train"}};
    if (!columns.empty()) set_path(document, "data.columns", columns);
    refuse_unknown(config, table, foreign);
    for (const auto& [key, entry] : table.items()) {
        if (!config.contains(key)) continue;
        megatron = megatron || (!pipeline && entry.value("megatron", false));
        read_key(key, config[key], entry, document, foreign);
        if (const auto paths = paths_of(entry); !paths.empty())
            foreign.honoured.push_back({key, paths});
    }
    apply_defaults(config, table, document, foreign);
    apply_rules(config, directory, megatron, document, foreign);
    return foreign;
}

void set_global_batch(const Foreign& foreign, Json& document) {
    if (foreign.sequences_per_replica == 0) return;
    const std::int64_t ranks =
        size_at(document, "/resources/nodes") *
        spec::ranks_on_node(
            on_gpus(document) ? static_cast<int>(size_at(document, "/resources/gpus_per_node")) : 0,
            static_cast<int>(size_at(document, "/resources/slots_per_node")),
            static_cast<int>(size_at(document, "/resources/slots_per_rank")));
    const std::int64_t replica = size_at(document, "/parallel/tp") *
                                 size_at(document, "/parallel/pp") *
                                 size_at(document, "/parallel/cp");
    const std::int64_t replicas = std::max<std::int64_t>(ranks / replica, 1);
    document["train"]["global_batch_size"] = foreign.sequences_per_replica * replicas;
}

std::vector<std::string> describe(const Foreign& foreign, const Json& document) {
    std::vector<std::string> lines;
    const auto is_refused = [&](const ForeignKey& one) {
        return std::any_of(foreign.problems.begin(), foreign.problems.end(),
                           [&](const spec::Problem& problem) { return problem.path == one.key; });
    };
    for (const ForeignKey& one : foreign.honoured) {
        if (is_refused(one)) continue;
        const std::string values = values_of(one.sets, document);
        lines.push_back(
            fmt::format("  {}: {}", one.key,
                        values.empty() ? "Roll reads this key together with other keys" : values));
    }
    for (const ForeignKey& one : foreign.defaults)
        lines.push_back(fmt::format("  {} (default): {}", one.key, values_of(one.sets, document)));
    for (const std::string& line : foreign.no_effect) lines.push_back("  no effect: " + line);
    for (const std::string& line : foreign.remarks) lines.push_back("  note: " + line);
    return lines;
}

}  // namespace roll::cli
