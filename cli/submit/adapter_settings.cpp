#include "cli/submit/adapter_settings.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "worker/formats/peft.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Keys of train.lora, and their names in adapter_config.json
constexpr std::pair<const char*, const char*> kSettings[] = {
    {"r", "r"},
    {"alpha", "lora_alpha"},
    {"rslora", "use_rslora"},
    {"dora", "use_dora"},
    {"dropout", "lora_dropout"},
    {"targets", "target_modules"},
    {"exclude", "exclude_modules"},
    {"layers", "layers_to_transform"},
    {"layers_pattern", "layers_pattern"},
    {"rank_pattern", "rank_pattern"},
    {"alpha_pattern", "alpha_pattern"},
    {"modules_to_save", "modules_to_save"}};

// Returns true if a value of adapter_config.json is the default of train.lora.
bool is_default(const Json& value) {
    return value.is_null() || value == false || value == 0 ||
           (value.is_structured() && value.empty());
}

// The jobs of a chain before the current job, in order.
using EarlierJobs = std::vector<const Json*>;

// Returns train.lora of the earlier job whose result `from` stands for, for example if `from` is
// "{sft.result}" or "{previous.result}". Returns null if there is no such job.
Json lora_of_earlier(const EarlierJobs& earlier, const std::string& from) {
    const Json::json_pointer lora("/train/lora");
    for (const Json* job : earlier) {
        const Json name = job->value("name", Json());
        const bool is_named =
            name.is_string() && from == "{" + name.get<std::string>() + ".result}";
        const bool is_previous = job == earlier.back() && from == "{previous.result}";
        if ((is_named || is_previous) && job->contains(lora)) return job->at(lora);
    }
    return {};
}

// Returns the settings of the adapter in a directory, with the names of train.lora.
Result<Json> settings_of(const fs::path& directory) {
    const auto config = formats::read_adapter_config(directory);
    if (!config)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("train.lora.from: {}: {}", directory.string(), config.error().message),
            "name the directory of a PEFT LoRA adapter");
    Json settings = Json::object();
    for (const auto& [key, name] : kSettings)
        settings[key] = formats::adapter_setting(*config, name);
    return settings;
}

// Fails if the job sets r, alpha, rslora or dora to another value than the adapter has, because the
// ranks cannot then continue the adapter. The ranks compare the settings that are lists, because
// lists have several forms. A resumed job continues its checkpoint, so its settings are not
// compared.
Result<void> compare_settings(const Json& document, const Json& settings, const std::string& from) {
    if (document.value("kind", Json()) == "resume") return {};
    const Json& lora = document["train"]["lora"];
    for (const char* key : {"r", "alpha", "rslora", "dora"}) {
        const Json there = settings.value(key, Json());
        if (!lora.contains(key) || there.is_null() || lora[key] == there) continue;
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("train.lora.{} is {}; allowed: {}, as in the adapter {} from which "
                                "the job continues; remove {}, so that Roll takes the adapter's "
                                "value",
                                key, dump(lora[key]), dump(there), from, key));
    }
    return {};
}

// Like use_adapter_settings(), for one job.
Result<void> use_settings(Json& document, const std::string& base, const EarlierJobs& earlier,
                          std::vector<std::string>& notes) {
    const Json::json_pointer at("/train/lora");
    if (!document.contains(at) || !document[at].is_object()) return {};
    Json& lora = document[at];
    if (!lora.contains("from") || !lora["from"].is_string()) return {};
    const std::string from = lora["from"];
    if (from.empty()) return {};  // refused later, by the job's schema
    Json settings = lora_of_earlier(earlier, from);
    const fs::path directory = fs::path(base) / from;
    std::error_code error;
    if (settings.is_null() && fs::is_directory(directory, error)) {
        ROLL_TRY(settings, settings_of(directory));
    }
    if (!settings.is_object()) return {};
    ROLL_TRY_VOID(compare_settings(document, settings, from));
    std::string taken;
    for (const auto& [key, name] : kSettings) {
        const Json value = settings.value(key, Json());
        if (lora.contains(key) || is_default(value)) continue;
        lora[key] = value;
        taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", key, dump(value));
    }
    if (!taken.empty())
        notes.push_back(fmt::format("train.lora: {}, as in the adapter {}", taken, from));
    return {};
}

}  // namespace

Result<void> use_adapter_settings(Json& document, const std::string& base,
                                  std::vector<std::string>& notes) {
    if (!document.is_object()) return {};
    ROLL_TRY_VOID(use_settings(document, base, {}, notes));
    const auto then = document.find("then");
    if (then == document.end() || !then->is_array()) return {};
    EarlierJobs earlier{&document};
    for (Json& job : *then) {
        if (!job.is_object()) return {};
        ROLL_TRY_VOID(use_settings(job, base, earlier, notes));
        earlier.push_back(&job);
    }
    return {};
}

}  // namespace roll::cli
