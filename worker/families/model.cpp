#include "worker/families/model.hpp"

#include <set>

#include "common/replace.hpp"
#include "worker/families/expression.hpp"
#include "worker/families/score.hpp"
#include "worker/families/strands.hpp"

namespace roll::families {
namespace {

// Limits far above the sizes of any model. Without these limits, a broken config could cause
// extremely long lists.
constexpr std::int64_t kLayersMax = 10'000;
constexpr std::int64_t kExpertsMax = 100'000;
constexpr std::int64_t kTensorsMax = 10'000'000;
constexpr std::int64_t kDimMax = std::int64_t{1} << 40U;

const Json* first_of(const Json& config, const std::vector<std::string>& paths) {
    for (const std::string& path : paths)
        if (const Json* value = value_at(config, path)) return value;
    return nullptr;
}

bool is_true(const Json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number()) return value.get<double>() != 0;
    return !value.is_null();
}

// Evaluates a condition "field" or "!field". A field that the config lacks counts as false.
bool holds(const std::string& condition, const Json& native) {
    if (condition.empty()) return true;
    const bool negated = condition.front() == '!';
    const auto found = native.find(negated ? condition.substr(1) : condition);
    return (found != native.end() && is_true(*found)) != negated;
}

bool in_list(const Json* list, std::int64_t layer) {
    if (list == nullptr || !list->is_array()) return false;
    return std::find(list->begin(), list->end(), Json(layer)) != list->end();
}

// Returns true if the layer is of the kind `name`. If `name` is "!kind", returns true if the layer
// is not of this kind. If `name` is empty, returns true.
bool is_of_kind(const Family& family, const std::string& name, const Json& hf_config,
                std::int64_t layer) {
    if (name.empty()) return true;
    const bool negated = name.front() == '!';
    const LayerKind& kind = family.layer_kinds.at(negated ? name.substr(1) : name);
    const auto number = [&](const std::string& key, std::int64_t otherwise) {
        const Json* value = key.empty() ? nullptr : value_at(hf_config, key);
        return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>()
                                                              : otherwise;
    };
    const auto index = static_cast<std::size_t>(layer);
    const Json* words = kind.in.empty() ? nullptr : value_at(hf_config, kind.in);
    if (words != nullptr && words->is_array() && index < words->size())
        return ((*words)[index] == kind.value) != negated;
    bool is = layer >= number(kind.from, kind.from_else);
    if (const std::int64_t step = number(kind.every, 1); step > 0) is &= (layer + 1) % step == 0;
    if (!kind.not_in.empty()) is &= !in_list(value_at(hf_config, kind.not_in), layer);
    if (kind.except_every > 0) is &= (layer + 1) % kind.except_every != 0;
    return is != negated;
}

// Returns the layers of a kind in the form of Megatron's moe_layer_freq: 1 if all layers are of
// this kind; otherwise a list with 1 or 0 for each layer.
Json layer_list(const Family& family, const std::string& kind, const Json& hf_config,
                std::int64_t layers) {
    Json list = Json::array();
    bool all = true;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        const bool is = is_of_kind(family, kind, hf_config, layer);
        all &= is;
        list.push_back(is ? 1 : 0);
    }
    return all ? Json(1) : list;
}

Result<void> check_required(const Family& family, const Json& hf_config) {
    for (const auto& [key, allowed] : family.requires_values.items()) {
        const Json* value = value_at(hf_config, key);
        if (value == nullptr) continue;
        bool found = false;
        for (const Json& one : allowed) found |= one == *value;
        if (!found)
            return fail(ErrorCode::InvalidArgument, key + " is " + value->dump() + "; family " +
                                                        family.name + " covers " + allowed.dump());
    }
    return {};
}

Result<std::int64_t> size_of(const Json& native, const char* key, std::int64_t largest = kDimMax) {
    const auto found = native.find(key);
    if (found == native.end() || !found->is_number_integer() || found->get<std::int64_t>() <= 0)
        return fail(ErrorCode::InvalidArgument,
                    std::string("the config needs a whole number above 0 for the key ") + key);
    if (found->get<std::int64_t>() > largest)
        return fail(ErrorCode::InvalidArgument,
                    std::string(key) + " is " + found->dump() + ", too large for any model");
    return found->get<std::int64_t>();
}

// The numbers that replace a rule's placeholders.
struct Instance {
    std::optional<std::int64_t> layer;
    std::optional<std::int64_t> expert;
    std::optional<std::int64_t> mtp;  // number of the layer within the MTP layers, from 0
    std::vector<std::pair<std::string, std::int64_t>> repeats = {};

    std::string name(std::string pattern) const {
        for (const auto& [placeholder, number] : repeats)
            pattern = replaced(pattern, placeholder, std::to_string(number));
        if (layer) pattern = replaced(pattern, "{layer}", std::to_string(*layer));
        if (expert) pattern = replaced(pattern, "{expert}", std::to_string(*expert));
        if (mtp) pattern = replaced(pattern, "{mtp}", std::to_string(*mtp));
        return pattern;
    }
    // Returns the HuggingFace name for `pattern`. Multi-token prediction layers use the rules of a
    // decoder layer, but their names have another prefix.
    std::string hf_name(const Family& family, std::string pattern) const {
        if (mtp && !family.mtp_from.empty() && pattern.starts_with(family.mtp_from))
            pattern.replace(0, family.mtp_from.size(), family.mtp_to);
        return name(std::move(pattern));
    }
};

Result<std::int64_t> dim_of(const std::string& expression, const Json& scope,
                            const std::string& name, std::int64_t smallest = 1) {
    ROLL_TRY(const std::int64_t dim, evaluate(expression, scope));
    if (dim < smallest || dim > kDimMax)
        return fail(ErrorCode::InvalidArgument,
                    name + ": \"" + expression + "\" is " + std::to_string(dim) + "; allowed: " +
                        std::to_string(smallest) + " to " + std::to_string(kDimMax));
    return dim;
}

Result<tensor::Shape> shape_of(const std::vector<std::string>& expressions, const Json& scope,
                               const std::string& name) {
    tensor::Shape shape;
    for (const std::string& expression : expressions) {
        ROLL_TRY(const std::int64_t dim, dim_of(expression, scope, name));
        shape.push_back(dim);
    }
    return shape;
}

Result<void> add_strands(const WeightRule& rule, const Json& scope, NativeTensor& tensor) {
    ROLL_TRY(tensor.groups, dim_of(rule.groups, scope, tensor.name));
    tensor.by_group = rule.by_group;
    for (const StrandRule& one : rule.strands) {
        Strand strand;
        strand.of = one.of;
        ROLL_TRY(strand.begin, dim_of(one.begin, scope, tensor.name, 0));
        ROLL_TRY(strand.rows, dim_of(one.rows, scope, tensor.name));
        ROLL_TRY(strand.times, dim_of(one.times, scope, tensor.name));
        ROLL_TRY(strand.step, dim_of(one.step, scope, tensor.name, 0));
        ROLL_TRY(strand.block, dim_of(one.block, scope, tensor.name));
        tensor.strands.push_back(strand);
    }
    return check_strands(tensor);
}

// Returns the tensor that a rule describes for the numbers in `instance`. `scope` is the native
// config with the HuggingFace config under the key "hf".
Result<NativeTensor> expand(const Family& family, const WeightRule& rule, const Json& scope,
                            const Instance& instance) {
    NativeTensor result;
    result.operation = rule.operation;
    result.split = rule.split;
    result.stage = rule.stage;
    result.layer = instance.layer;
    result.expert = instance.expert;
    result.name = instance.name(rule.native);
    if (instance.mtp) {
        const std::string decoder = "decoder.layers." + std::to_string(*instance.layer) + ".";
        if (result.name.starts_with(decoder))
            result.name.replace(
                0, decoder.size(),
                "mtp.layers." + std::to_string(*instance.mtp) + ".transformer_layer.");
        result.layer = std::nullopt;
        result.stage = Stage::Last;
    }
    result.add = rule.add;
    result.keeps_fp32 = rule.keeps_fp32;
    ROLL_TRY(const tensor::Shape shape, shape_of(rule.shapes[0], scope, result.name));
    for (std::size_t i = 0; i < rule.hf.size(); ++i) {
        HfTensor source{instance.hf_name(family, rule.hf[i]), shape};
        if (i > 0 && rule.shapes.size() > 1) {
            ROLL_TRY(source.shape, shape_of(rule.shapes[i], scope, result.name));
        }
        if (rule.operation == Operation::Qkv) {
            ROLL_TRY(
                const std::int64_t heads,
                size_of(scope, i == 0 ? "num_attention_heads" : "num_query_groups", kExpertsMax));
            source.shape[0] *= heads;
        }
        result.sources.push_back(std::move(source));
    }
    result.unit = rule.operation == Operation::Qkv ? shape[0] : 1;
    result.shape = shape;
    if (shape.empty()) return result;
    result.shape[0] = 0;
    for (const HfTensor& source : result.sources) result.shape[0] += source.shape[0];
    if (rule.operation == Operation::Strands) ROLL_TRY_VOID(add_strands(rule, scope, result));
    return result;
}

const std::vector<std::string>* paths_of(const Family& family, std::string_view native) {
    for (const auto& [name, paths] : family.config)
        if (name == native) return &paths;
    return nullptr;
}

// If the sizes omit the number of key-value heads, uses the number of query heads, not the
// family's default. Writes this number to the config, because transformers would use the family's
// default.
void set_groups(const Family& family, Json& config) {
    const auto* groups = paths_of(family, "num_query_groups");
    const auto* heads = paths_of(family, "num_attention_heads");
    if (groups == nullptr || heads == nullptr || first_of(config, *groups) != nullptr) return;
    if (const Json* count = first_of(config, *heads)) config[groups->front()] = *count;
}

}  // namespace

Result<NativeTensor> tensor_of(const Family& family, const WeightRule& rule, const Json& scope) {
    return expand(family, rule, scope, {0, 0, std::nullopt});
}

Result<Json> complete_hf_config(const Family& family, const Json& sizes) {
    if (!sizes.is_object())
        return fail(ErrorCode::InvalidArgument, "model sizes must be an object");
    std::set<std::string> known{"model_type", "torch_dtype", "dtype", "transformers_version"};
    for (const auto& [key, value] : family.hf_defaults.items()) known.insert(key);
    for (const auto& [key, value] : family.requires_values.items()) known.insert(key);
    for (const auto& [native, paths] : family.config)
        for (const std::string& path : paths) known.insert(path.substr(0, path.find('.')));
    for (const auto& [name, kind] : family.layer_kinds)
        for (const std::string& key : {kind.from, kind.every, kind.not_in, kind.in})
            known.insert(key);
    Json config = family.hf_defaults;
    for (const auto& [key, value] : sizes.items()) {
        if (!known.contains(key))
            return fail(ErrorCode::InvalidArgument,
                        "family " + family.name + " has no config key " + key);
        config[key] = value;
    }
    config["model_type"] = family.model_type;
    set_groups(family, config);
    ROLL_TRY(const Json native, native_config(family, config));
    ROLL_TRY_VOID(native_tensors(family, native, config));
    return config;
}

Result<void> set_keys(const Family& family, const Json& keys, Json& hf_config, Json& native) {
    for (const auto& [key, value] : keys.items()) {
        bool known = false;
        for (const auto& [name, paths] : family.config) {
            if (std::ranges::find(paths, key) == paths.end()) continue;
            native[name] = value;
            known = true;
        }
        if (!known)
            return fail(ErrorCode::InvalidArgument,
                        "family " + family.name + " has no config key " + key);
        std::string path = "/" + key;
        std::replace(path.begin(), path.end(), '.', '/');
        hf_config[Json::json_pointer(path)] = value;
    }
    return {};
}

namespace {

using SilentFields = std::vector<std::pair<std::string, Json>>;

// Sets native fields to the family's default values. A default that is a string is an arithmetic
// expression over native fields and "hf." fields.
Result<void> set_defaults(const SilentFields& fields, const Json& hf_config, Json& native) {
    Json scope = native;
    scope["hf"] = hf_config;
    for (const auto& [name, value] : fields) {
        if (value.is_string()) {
            ROLL_TRY(scope[name], evaluate(value.get<std::string>(), scope));
        } else {
            scope[name] = value;
        }
        native[name] = scope[name];
    }
    return {};
}

}  // namespace

Result<Json> native_config(const Family& family, const Json& hf_config) {
    if (!hf_config.is_object())
        return fail(ErrorCode::InvalidArgument, "config.json must be a JSON object; copy it again");
    ROLL_TRY_VOID(check_required(family, hf_config));
    Json native = Json::object();
    SilentFields silent;
    for (const auto& [name, paths] : family.config) {
        const auto is_null = [&](const std::string& path) { return is_null_at(hf_config, path); };
        if (const Json* value = first_of(hf_config, paths)) {
            native[name] = *value;
        } else if (family.nulls.contains(name) && std::ranges::any_of(paths, is_null)) {
            silent.emplace_back(name, family.nulls[name]);
        } else if (family.defaults.contains(name)) {
            silent.emplace_back(name, family.defaults[name]);
        } else {
            return fail(ErrorCode::InvalidArgument,
                        "the HuggingFace config has no " + paths.front());
        }
    }
    ROLL_TRY_VOID(set_defaults(silent, hf_config, native));
    for (const auto& [name, value] : family.constants.items()) {
        if (!value.is_object()) {
            native[name] = value;
            continue;
        }
        if (value.contains("not")) {
            const Json* key = value_at(hf_config, value.value("not", ""));
            native[name] = !is_true(key != nullptr ? *key : value.value("missing", Json(false)));
            continue;
        }
        if (value.contains("is")) {
            const auto says = [&](const Json& key) {
                const Json* found = value_at(hf_config, key.get<std::string>());
                return found != nullptr && *found == value["is"];
            };
            native[name] = std::any_of(value["in"].begin(), value["in"].end(), says)
                               ? value.value("then", Json(true))
                               : value.value("else", Json(false));
            continue;
        }
        ROLL_TRY(const std::int64_t layers, size_of(native, "num_layers", kLayersMax));
        native[name] = layer_list(family, value.value("layers", ""), hf_config, layers);
    }
    ROLL_TRY(const std::int64_t heads, size_of(native, "num_attention_heads"));
    ROLL_TRY(const std::int64_t groups, size_of(native, "num_query_groups"));
    if (heads % groups != 0)
        return fail(ErrorCode::InvalidArgument, "num_attention_heads " + std::to_string(heads) +
                                                    " is not divisible by num_key_value_heads " +
                                                    std::to_string(groups));
    if (const std::int64_t labels = score_labels(hf_config); labels > 0) set_scores(native, labels);
    return native;
}

namespace {

// Lists a model's tensors. Applies the rules of each stage to each layer and expert.
class Lister {
  public:
    Lister(const Family& family, const Json& native, const Json& hf_config)
        : family_(family),
          native_(native),
          hf_config_(hf_config),
          scope_(native) {
        scope_["hf"] = hf_config;
    }

    Result<void> add_stage(Stage stage) {
        for (const WeightRule& rule : family_.weights) {
            if (rule.stage != stage || !holds(rule.condition, native_)) continue;
            if (rule.native == kOutput && has_score(native_)) continue;
            ROLL_TRY_VOID(add_repeated(rule, rule.repeat.begin(), {}));
        }
        return {};
    }

    Result<void> add_layer(std::int64_t layer, std::optional<std::int64_t> mtp) {
        for (const WeightRule& rule : family_.weights) {
            const bool here = rule.stage == Stage::Layer || (mtp && rule.stage == Stage::Mtp);
            if (!here || !holds(rule.condition, native_) ||
                !is_of_kind(family_, rule.layers, hf_config_, layer))
                continue;
            if (rule.native.find("{expert}") == std::string::npos) {
                ROLL_TRY_VOID(add(rule, {layer, std::nullopt, mtp}));
                continue;
            }
            ROLL_TRY(const std::int64_t experts, size_of(native_, "num_moe_experts", kExpertsMax));
            if (static_cast<std::int64_t>(tensors_.size()) + experts > kTensorsMax)
                return fail(ErrorCode::InvalidArgument,
                            "too many tensors; the limit is 10,000,000");
            for (std::int64_t expert = 0; expert < experts; ++expert)
                ROLL_TRY_VOID(add(rule, {layer, expert, mtp}));
        }
        return {};
    }

    Result<void> add_score() { return add(score_rule(), {}); }

    std::vector<NativeTensor> take() && { return std::move(tensors_); }

  private:
    using Repeat = std::map<std::string, std::string>::const_iterator;

    // Adds a tensor for each combination of numbers that the rule's `repeat` placeholders may have.
    Result<void> add_repeated(const WeightRule& rule, Repeat next, const Instance& instance) {
        if (next == rule.repeat.end()) return add(rule, instance);
        ROLL_TRY(const std::int64_t count, dim_of(next->second, scope_, rule.native, 0));
        if (count > kExpertsMax)
            return fail(ErrorCode::InvalidArgument,
                        rule.native + " would be repeated " + std::to_string(count) +
                            " times; allowed: at most " + std::to_string(kExpertsMax));
        for (std::int64_t i = 0; i < count; ++i) {
            Instance one = instance;
            one.repeats.emplace_back(next->first, i);
            ROLL_TRY_VOID(add_repeated(rule, std::next(next), one));
        }
        return {};
    }

    Result<void> add(const WeightRule& rule, const Instance& instance) {
        if (static_cast<std::int64_t>(tensors_.size()) >= kTensorsMax)
            return fail(ErrorCode::InvalidArgument, "too many tensors; the limit is 10,000,000");
        ROLL_TRY(NativeTensor one, expand(family_, rule, scope_, instance));
        tensors_.push_back(std::move(one));
        return {};
    }
    const Family& family_;
    const Json& native_;
    const Json& hf_config_;
    Json scope_;
    std::vector<NativeTensor> tensors_;
};

}  // namespace

namespace {

Result<std::int64_t> mtp_layers_of(const Json& native) {
    if (!holds("mtp_num_layers", native)) return 0;
    return size_of(native, "mtp_num_layers", kLayersMax);
}

}  // namespace

Result<std::vector<NativeTensor>> native_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config) {
    ROLL_TRY(const std::int64_t layers, size_of(native, "num_layers", kLayersMax));
    ROLL_TRY(const std::int64_t mtp_layers, mtp_layers_of(native));
    Lister lister(family, native, hf_config);
    ROLL_TRY_VOID(lister.add_stage(Stage::First));
    for (std::int64_t layer = 0; layer < layers; ++layer)
        ROLL_TRY_VOID(lister.add_layer(layer, std::nullopt));
    ROLL_TRY_VOID(lister.add_stage(Stage::Last));
    if (has_score(native)) ROLL_TRY_VOID(lister.add_score());
    for (std::int64_t mtp = 0; mtp < mtp_layers; ++mtp)
        ROLL_TRY_VOID(lister.add_layer(layers + mtp, mtp));
    return std::move(lister).take();
}

std::vector<std::string> modules_of(const std::vector<NativeTensor>& tensors) {
    std::vector<std::string> modules;
    for (const NativeTensor& tensor : tensors)
        for (const HfTensor& source : tensor.sources)
            modules.push_back(source.name.substr(0, source.name.rfind('.')));
    return modules;
}

Result<std::vector<CopiedTensor>> copied_tensors(const Family& family, const Json& native) {
    std::vector<CopiedTensor> copies;
    if (family.copies.empty()) return copies;
    ROLL_TRY(const std::int64_t layers, size_of(native, "num_layers", kLayersMax));
    ROLL_TRY(const std::int64_t mtp_layers, mtp_layers_of(native));
    for (std::int64_t mtp = 0; mtp < mtp_layers; ++mtp)
        for (const CopyRule& rule : family.copies)
            copies.push_back({replaced(rule.hf, "{layer}", std::to_string(layers + mtp)), rule.of,
                              rule.condition});
    return copies;
}

Result<std::vector<PackedTensor>> packed_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config) {
    std::vector<PackedTensor> packed;
    if (family.packed.empty()) return packed;
    ROLL_TRY(const std::int64_t layers, size_of(native, "num_layers", kLayersMax));
    ROLL_TRY(const std::int64_t experts, size_of(native, "num_moe_experts", kExpertsMax));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        const Instance instance{layer, std::nullopt, std::nullopt};
        for (const PackedRule& rule : family.packed) {
            if (!is_of_kind(family, rule.layers, hf_config, layer)) continue;
            PackedTensor one{instance.name(rule.hf), rule.packing, {}, rule.condition};
            for (std::int64_t expert = 0; expert < experts; ++expert) {
                Instance of_expert = instance;
                of_expert.expert = expert;
                std::vector<std::string> names;
                for (const std::string& name : rule.of) names.push_back(of_expert.name(name));
                one.members.push_back(std::move(names));
            }
            packed.push_back(std::move(one));
        }
    }
    return packed;
}

}  // namespace roll::families
