#include "worker/formats/peft.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <regex>

#include <fmt/format.h>

#include "common/files.hpp"

namespace roll::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kInner = ".base_layer";
constexpr std::size_t kPatternMax = 256;

tl::unexpected<Error> refuse(std::string what) {
    return fail(ErrorCode::InvalidArgument, "adapter_config.json: " + std::move(what));
}

bool is_set(const Json& config, const char* key) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return false;
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_structured()) return !found->empty();
    return true;
}

double number_or(const Json& config, const char* key, double otherwise) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number() ? found->get<double>() : otherwise;
}

// Returns true if a pattern applies to a module. As in PEFT, the regular expression must match the
// whole module name, or all of the name after one of its dots.
bool matches(const std::string& pattern, const std::string& module) {
    if (pattern.size() > kPatternMax || module.size() > kPatternMax) return false;
    try {
        return std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"));
    } catch (const std::regex_error&) {
        return false;
    }
}

double pattern_or(const Json& config, const char* key, const std::string& module,
                  double otherwise) {
    const auto patterns = config.find(key);
    if (patterns == config.end() || !patterns->is_object()) return otherwise;
    for (const auto& [pattern, value] : patterns->items())
        if (value.is_number() && matches(pattern, module)) return value.get<double>();
    return otherwise;
}

// Fails for adapters whose initialization also changed the base model. Such an adapter needs the
// changed base, which its files do not contain.
Result<void> check_start(const Json& config) {
    const Json start = config.value("init_lora_weights", Json(true));
    if (!start.is_string()) return {};
    std::string word = start.get<std::string>();
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    constexpr std::array<std::string_view, 4> kKeepTheBase{"gaussian", "eva", "orthogonal", "mica"};
    if (std::find(kKeepTheBase.begin(), kKeepTheBase.end(), word) != kKeepTheBase.end()) return {};
    const bool quantizes = word == "loftq";
    return fail(ErrorCode::InvalidArgument,
                "adapter_config.json: init_lora_weights is " + start.dump() +
                    "; this initialization also changed the base model, and the adapter's files do "
                    "not contain the change",
                quantizes ? "save the base model as LoftQ changed it (save_pretrained()), set "
                            "init_lora_weights to true, and merge into that base model"
                          : "save the adapter with PEFT's save_pretrained(DIR, "
                            "path_initial_model_for_weight_conversion=INITIAL), which makes the "
                            "adapter an ordinary LoRA of the original base model");
}

Result<void> check_config(const Json& config) {
    const auto type = config.find("peft_type");
    if (type == config.end() || *type != "LORA")
        return refuse("peft_type is " + (type == config.end() ? "missing" : type->dump()) +
                      "; Roll can merge only adapters of type LORA");
    for (const char* key : {"lora_bias", "trainable_token_indices", "layer_replication",
                            "use_qalora", "alora_invocation_tokens", "arrow_config"}) {
        if (is_set(config, key))
            return refuse("Roll cannot merge an adapter with " + std::string(key));
    }
    ROLL_TRY_VOID(check_start(config));
    if (const auto bias = config.find("bias");
        bias != config.end() && !bias->is_null() && *bias != "none")
        return refuse("bias is " + bias->dump() +
                      "; Roll can merge only adapters with bias \"none\"");
    return {};
}

struct Ending {
    std::string_view text;
    enum Part { A, B, EmbeddingA, EmbeddingB, Magnitude } part;
};
constexpr std::array<Ending, 6> kEndings{{{".lora_A.weight", Ending::A},
                                          {".lora_B.weight", Ending::B},
                                          {".lora_embedding_A", Ending::EmbeddingA},
                                          {".lora_embedding_B", Ending::EmbeddingB},
                                          {".lora_magnitude_vector", Ending::Magnitude},
                                          {".lora_magnitude_vector.weight", Ending::Magnitude}}};

struct Halves {
    std::optional<tensor::StridedView> a;
    std::optional<tensor::StridedView> b;
    std::optional<tensor::StridedView> magnitude;
    bool embedding = false;
};

// Groups a file's LoRA tensors by module. Appends the other tensors to `whole`. These are the
// tensors of modules_to_save, and the weight of an embedding, which PEFT stores beside the
// embedding's LoRA.
Result<std::map<std::string, Halves>> sort_tensors(const std::vector<tensor::StridedView>& tensors,
                                                   std::vector<tensor::StridedView>& whole) {
    std::map<std::string, Halves> modules;
    for (const tensor::StridedView& view : tensors) {
        std::string name = view.info.name;
        if (!name.starts_with(kPrefix))
            return fail(ErrorCode::Corrupt,
                        "adapter tensor " + name + " does not start with " + std::string(kPrefix));
        name.erase(0, kPrefix.size());
        const auto* const ending =
            std::find_if(kEndings.begin(), kEndings.end(),
                         [&](const Ending& one) { return name.ends_with(one.text); });
        if (ending == kEndings.end()) {
            for (const std::string infix : {".modules_to_save.", ".base_layer."})
                if (const std::size_t at = name.find(infix); at != std::string::npos)
                    name.replace(at, infix.size(), ".");
            whole.push_back(view);
            whole.back().info.name = name;
            continue;
        }
        name.resize(name.size() - ending->text.size());
        Halves& halves = modules[name];
        switch (ending->part) {
            case Ending::EmbeddingA: halves.embedding = true; [[fallthrough]];
            case Ending::A: halves.a = view; break;
            case Ending::EmbeddingB: halves.embedding = true; [[fallthrough]];
            case Ending::B: halves.b = view; break;
            case Ending::Magnitude: halves.magnitude = view; break;
        }
    }
    return modules;
}

// Returns true if an entry of target_parameters names a parameter of the module. As in PEFT, an
// entry names the parameter "MODULE.PARAMETER" if it equals this full name or the part of it after
// a dot. Does not count parameters named "weight", because they belong to linear layers, which are
// not stacked.
bool is_stacked(const Json& config, std::string module) {
    const Json targets = config.value("target_parameters", Json());
    if (!targets.is_array()) return false;
    while (module.ends_with(kInner)) module.resize(module.size() - kInner.size());
    return std::any_of(targets.begin(), targets.end(), [&](const Json& target) {
        if (!target.is_string()) return false;
        const std::string text = target.get<std::string>();
        const std::string name = text.substr(text.rfind('.') + 1);
        const std::string own = module + "." + name;
        return name != "weight" && (own == text || own.ends_with("." + text));
    });
}

Result<LoraModule> module_of(const std::string& name, const Halves& halves, const Json& config) {
    if (!halves.a || !halves.b)
        return fail(ErrorCode::Corrupt,
                    "adapter module " + name + " lacks its matrix A or B; copy the adapter again");
    const tensor::Shape& a = halves.a->info.shape;
    const tensor::Shape& b = halves.b->info.shape;
    if (a.size() != 2 || b.size() != 2 || a[0] != b[1] || a[0] < 1)
        return fail(ErrorCode::Corrupt,
                    "adapter module " + name + " has A " + tensor::to_string(a) + " and B " +
                        tensor::to_string(b) + "; the rows of A must equal the columns of B");
    for (const auto* view : {&*halves.a, &*halves.b})
        if (!tensor::is_castable(view->info.dtype))
            return fail(ErrorCode::InvalidArgument,
                        "adapter module " + name + " has elements of type " +
                            tensor::name_of(view->info.dtype) + ", which cannot be converted");
    const double said = lora_rank(config, name);
    if (said != static_cast<double>(a[0]) && !is_stacked(config, name))
        return fail(ErrorCode::Corrupt,
                    fmt::format("adapter module {} has rank {}; adapter_config.json says {}", name,
                                a[0], said));
    return LoraModule{name,
                      *halves.a,
                      *halves.b,
                      halves.magnitude,
                      lora_scale(config, name, said),
                      halves.embedding,
                      is_set(config, "fan_in_fan_out")};
}

}  // namespace

double lora_rank(const Json& config, const std::string& module) {
    return pattern_or(config, "rank_pattern", module, number_or(config, "r", 8));
}

double lora_scale(const Json& config, const std::string& module, double lora_rank) {
    const double alpha =
        pattern_or(config, "alpha_pattern", module, number_or(config, "lora_alpha", 8));
    return alpha / (is_set(config, "use_rslora") ? std::sqrt(lora_rank) : lora_rank);
}

Result<Json> read_adapter_config(const fs::path& directory) {
    ROLL_TRY(const std::string text, read_regular_file(directory / "adapter_config.json"));
    auto config = parse_json(text);
    if (!config || !config->is_object()) return refuse("is not a JSON object");
    ROLL_TRY_VOID(check_config(*config));
    return *std::move(config);
}

Json adapter_setting(const Json& config, const std::string& key) {
    static const Json kDefaults = {{"r", 8},
                                   {"lora_alpha", 8},
                                   {"use_rslora", false},
                                   {"use_dora", false},
                                   {"rank_pattern", Json::object()},
                                   {"alpha_pattern", Json::object()}};
    const Json value = config.value(key, Json());
    return value.is_null() ? kDefaults.value(key, Json()) : value;
}

Result<Adapter> read_adapter(const fs::path& directory) {
    Adapter adapter;
    ROLL_TRY(adapter.config, read_adapter_config(directory));
    std::error_code error;
    const bool safe = fs::exists(directory / "adapter_model.safetensors", error);
    ROLL_TRY(adapter.file,
             open_hf_file(directory / (safe ? "adapter_model.safetensors" : "adapter_model.bin")));
    ROLL_TRY(const auto modules, sort_tensors(adapter.file.tensors, adapter.whole));
    for (const auto& [name, halves] : modules) {
        ROLL_TRY(LoraModule module, module_of(name, halves, adapter.config));
        const bool stacked = is_stacked(adapter.config, name);
        (stacked ? adapter.stacked : adapter.modules).push_back(std::move(module));
    }
    return adapter;
}

}  // namespace roll::formats
