#include "cli/adapter_settings.hpp"

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

}  // namespace

Result<void> use_adapter_settings(Json& document, const std::string& base,
                                  std::vector<std::string>& notes) {
    if (!document.is_object()) return {};
    if (const auto then = document.find("then"); then != document.end() && then->is_array())
        for (Json& job : *then) ROLL_TRY_VOID(use_adapter_settings(job, base, notes));
    const Json::json_pointer at("/train/lora");
    if (!document.contains(at) || !document[at].is_object()) return {};
    Json& lora = document[at];
    const Json from = lora.value("from", Json());
    if (!from.is_string()) return {};
    const fs::path directory = fs::path(base) / from.get<std::string>();
    std::error_code error;
    if (!fs::is_directory(directory, error)) return {};
    const auto config = formats::read_adapter_config(directory);
    if (!config)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("train.lora.from: {}: {}", directory.string(), config.error().message),
            "name the directory of a PEFT LoRA adapter");
    std::string taken;
    for (const auto& [key, name] : kSettings) {
        const Json value = config->value(name, Json());
        if (lora.contains(key) || is_default(value)) continue;
        lora[key] = value;
        taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", key, dump(value));
    }
    if (!taken.empty())
        notes.push_back(fmt::format("train.lora: {}, as in the adapter {}", taken,
                                    directory.lexically_normal().string()));
    return {};
}

}  // namespace roll::cli
