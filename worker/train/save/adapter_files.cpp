#include "worker/train/save/adapter_files.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/formats/peft.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightFile = "adapter_model.safetensors";
constexpr const char* kBase = "base_model_name_or_path";
constexpr std::string_view kPrefix = "base_model.model.", kWeight = ".weight";

// Translates the native names of parameters to PEFT's names. The parameters are LoRA factors, or
// weights that are trained whole.
class PeftNames {
  public:
    explicit PeftNames(const ModelSetup& model) {
        for (const families::NativeTensor& tensor : native_tensors(model))
            for (const families::HfTensor& source : tensor.sources)
                sources_[tensor.name].push_back(source.name);
    }

    // Returns the PEFT name of a parameter. A factor's native name consists of its layer's name,
    // then ".lora_A.MODULE", ".lora_B.MODULE" or ".lora_magnitude.MODULE", then ".weight".
    std::string of(const ParameterSpec& spec) const {
        const std::string& name = spec.name;
        const auto at = name.find(".lora_");
        if (at == std::string::npos) return std::string(kPrefix) + sources_.at(name).front();
        const std::string factor = name.substr(at, name.find('.', at + 1) - at);
        // the module's name, such as ".q_proj.weight"
        const std::string module = name.substr(at + factor.size());
        const bool is_magnitude = factor == ".lora_magnitude";
        for (const std::string& source : sources_.at(name.substr(0, at) + std::string(kWeight)))
            if (source.ends_with(module))
                return std::string(kPrefix) + source.substr(0, source.size() - kWeight.size()) +
                       factor + (is_magnitude ? "_vector" : std::string(kWeight));
        ROLL_CHECK(false);
    }

  private:
    std::map<std::string, std::vector<std::string>> sources_;
};

// The keys of adapter_config.json that choose the adapted modules, their LoRA ranks and their
// alphas
struct Choice {
    Json targets = Json::array(), ranks = Json::object(), alphas = Json::object();
    Json exclude = {}, layers = {}, layers_pattern = {};
};

template <class List>
Json list_or_null(const List& list) {
    return list.empty() ? Json() : Json(list);
}

Choice choice_of(const spec::LoraSpec& lora) {
    Choice choice;
    std::set<std::string> places;
    for (const spec::LoraModule& module : lora.modules) {
        const char* const name = name_of(module.place);
        if (places.insert(name).second) choice.targets.push_back(name);
        if (lora.patterns) continue;
        if (module.r != lora.r) choice.ranks[name] = module.r;
        if (module.alpha != lora.alpha) choice.alphas[name] = module.alpha;
    }
    if (!lora.patterns) return choice;
    const spec::LoraPatterns& patterns = *lora.patterns;
    if (patterns.targets_match)
        choice.targets = patterns.targets.front();
    else if (!patterns.all_linear())
        choice.targets = patterns.targets;
    for (const auto& [name, r] : patterns.ranks) choice.ranks[name] = static_cast<std::int64_t>(r);
    for (const auto& [name, alpha] : patterns.alphas) choice.alphas[name] = alpha;
    choice.exclude =
        patterns.exclude_matches ? Json(patterns.exclude.front()) : list_or_null(patterns.exclude);
    choice.layers = list_or_null(patterns.layers);
    choice.layers_pattern = list_or_null(patterns.layers_pattern);
    return choice;
}

Json config_of(const ModelSetup& model) {
    const spec::LoraSpec& lora = model.config.lora;
    const Choice choice = choice_of(lora);
    const Json saved = lora.modules_to_save.empty() ? Json() : Json(lora.modules_to_save);
    Json config = {{"peft_type", "LORA"},
                   {"task_type", model.config.scores ? "SEQ_CLS" : "CAUSAL_LM"},
                   {kBase, model.base},
                   {"r", lora.r},
                   {"lora_alpha", lora.alpha},
                   {"use_rslora", lora.rslora},
                   {"target_modules", choice.targets},
                   {"rank_pattern", choice.ranks},
                   {"alpha_pattern", choice.alphas},
                   {"lora_dropout", lora.dropout},
                   {"use_dora", lora.dora},
                   {"bias", "none"},
                   {"fan_in_fan_out", false},
                   {"init_lora_weights", true},
                   {"modules_to_save", saved},
                   {"inference_mode", true}};
    if (!choice.exclude.is_null()) config["exclude_modules"] = choice.exclude;
    if (!choice.layers.is_null()) config["layers_to_transform"] = choice.layers;
    if (!choice.layers_pattern.is_null()) config["layers_pattern"] = choice.layers_pattern;
    if (!model.adapters.empty()) config[formats::kBaseAdapters] = model.adapters;
    return config;
}

// The keys of adapter_config.json that must not change when a job continues
constexpr std::array kSettings{"r",
                               "lora_alpha",
                               "use_rslora",
                               "target_modules",
                               "rank_pattern",
                               "alpha_pattern",
                               "exclude_modules",
                               "layers_to_transform",
                               "layers_pattern",
                               "use_dora",
                               "modules_to_save",
                               formats::kBaseAdapters};

Json sorted(Json value) {
    if (value.is_array()) std::sort(value.begin(), value.end());
    return value;
}

// Returns torch's name of a floating-point type; nullopt for other types.
std::optional<at::ScalarType> float_type(tensor::DType dtype) {
    switch (dtype) {
        case tensor::DType::F64: return at::kDouble;
        case tensor::DType::F32: return at::kFloat;
        case tensor::DType::BF16: return at::kBFloat16;
        case tensor::DType::F16: return at::kHalf;
        default: return std::nullopt;
    }
}

// Fills this rank's part of a factor from an adapter's file.
void read_factor(const tensor::SafetensorsFile& file, const fs::path& directory,
                 const std::string& name, Parameters& p, std::size_t i) {
    const ParameterSpec& spec = p.specs[i];
    const tensor::TensorView* view = file.find(name);
    const auto type = view == nullptr ? std::nullopt : float_type(view->info.dtype);
    if (!type || view->info.shape != whole_sizes(spec))
        throw RankFailure(2, "the adapter " + directory.string() + " has no " + name +
                                 " of shape " + tensor::to_string(whole_sizes(spec)) +
                                 " with floating-point values; use the train.lora of the job that "
                                 "wrote the adapter");
    const at::Tensor whole = at::from_blob(const_cast<std::byte*>(view->bytes.data()),
                                           view->info.shape, at::TensorOptions(*type))
                                 .to(main_type(p));
    const at::Tensor own = main_to_write(p, i);
    copy_from_whole(spec, whole, own);
    set_main(p, i, own);
}

}  // namespace

AdapterImage adapter_image(TrainStep& step, const ModelSetup& model) {
    const PeftNames names(model);
    const std::vector<ParameterSpec> specs = specs_of(saved_parameters(step.whole()));
    const bool is_double = main_type(step.chunks().front().parameters()) == at::kDouble;
    const auto dtype = is_double ? tensor::DType::F64 : tensor::DType::F32;
    AdapterImage image{kWeightFile, {}, {}};
    std::map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < specs.size(); ++i) by_name[names.of(specs[i])] = i;
    for (const auto& [name, i] : by_name) {
        image.infos.push_back({name, dtype, specs[i].sizes});
        image.factors.push_back(i);
    }
    return image;
}

std::vector<at::Tensor> joined_factors(TrainStep& step, bool averaged) {
    const Groups& groups = step.groups();
    const Parameters& first = step.chunks().front().parameters();
    const at::ScalarType type = main_type(first);
    std::vector<at::Tensor> factors;
    if (groups.dp.rank() > 0 && !first.is_shared) return factors;
    for (const WholeParameter& parameter : saved_parameters(step.whole())) {
        // If ranks share optimizer state, each rank adds its own rows. No two ranks' rows overlap,
        // so their sum, with zeros elsewhere, is exact.
        const auto copy = [&](std::span<const at::Tensor> to) {
            const Parameters& p = step.chunks()[parameter.chunk].parameters();
            if (p.is_shared) to[0].zero_();
            const at::Tensor own = own_rows(p, parameter.index, to[0]);
            if (!averaged)
                copy_main(p, parameter.index, own);
            else if (own.numel() > 0)
                own.copy_(step.optimizers()[parameter.chunk].state().of(kEma, parameter.index));
            if (p.is_shared)
                sum_over(groups.dp, to[0], {Site::Weights, static_cast<int>(parameter.index)});
        };
        if (groups.dp.rank() > 0) {
            const at::Tensor dropped = at::empty(parameter.own.sizes, type);
            if (parameter.rank == groups.pp.rank()) copy({&dropped, 1});
            continue;
        }
        at::Tensor whole;
        if (is_first(groups)) whole = at::empty(parameter.spec.sizes, type);
        copy_to_first(parameter, groups.pp, groups.tp, type, {&whole, 1}, copy);
        if (whole.defined()) factors.push_back(whole);
    }
    return factors;
}

Result<void> write_adapter_config(const fs::path& directory, const ModelSetup& model) {
    return write_file_atomically(directory / kConfigFile, config_of(model).dump(2) + "\n");
}

void read_adapter(const fs::path& directory, TrainStep& step, const ModelSetup& model) {
    const Json written = of_disk(parse_json(need(read_file(directory / kConfigFile))));
    const Json own = config_of(model);
    for (const char* key : kSettings) {
        const Json here = sorted(own.value(key, Json())),
                   there = sorted(formats::adapter_setting(written, key));
        if (here != there)
            throw RankFailure(2, "train.lora: " + std::string(key) + " is " + here.dump() +
                                     ", but " + there.dump() + " in the adapter " +
                                     directory.string() +
                                     " from which the job continues; use the adapter's value");
    }
    const PeftNames names(model);
    const auto file = of_disk(tensor::SafetensorsFile::open(directory / kWeightFile));
    for (Chunk& chunk : step.chunks()) {
        Parameters& p = chunk.parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (p.specs[i].lora != LoraRole::Base)
                read_factor(file, directory, names.of(p.specs[i]), p, i);
    }
}

bool start_from_adapter(TrainStep& step, const ModelSetup& model) {
    const std::string& from = model.config.lora.from;
    if (from.empty()) return false;
    check_base(from, model.base, "train.lora.from");
    read_adapter(from, step, model);
    for (Optimizer& optimizer : step.optimizers()) optimizer.start_average();
    return true;
}

bool is_adapter(const fs::path& directory) {
    std::error_code error;
    return fs::exists(directory / kConfigFile, error);
}

}  // namespace roll::train
