#include "worker/convert/checkpoint/dist_layout.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "worker/convert/checkpoint/mca_layout.hpp"

namespace roll::convert {
namespace {

using families::NativeTensor;

constexpr const char* kFsdpPrefix = "model.module.";
constexpr const char* kLocalExperts = ".experts.local_experts.";

// Returns "….experts.experts.linear_fc1.weight" for "….experts.local_experts.5.linear_fc1.weight".
std::string without_expert(std::string name, std::int64_t expert) {
    const std::string infix = kLocalExperts + std::to_string(expert) + ".";
    const std::size_t at = name.find(infix);
    return at == std::string::npos ? name : name.replace(at, infix.size(), ".experts.experts.");
}

// Collects the parts of each key. add() must be called with layers in ascending order, and with the
// experts of a layer in ascending order.
class Collector {
  public:
    Collector(const Model& model, std::int64_t layers) : model_(model), layers_(layers) {}

    Result<void> add(const std::string& key, const NativeTensor& tensor, bool stacked) {
        ROLL_TRY(Stored part, whole_native(tensor, model_));
        part.name = key;
        if (stacked && tensor.layer) part.origin.push_back(*tensor.layer);
        if (tensor.expert) part.origin.push_back(*tensor.expert);
        DistTensor& one = keys_[key];
        if (one.parts.empty()) one.shape = part.shape;
        one.by_layer = stacked;
        one.parts.push_back(std::move(part));
        return {};
    }

    // Returns the complete keys. A key is complete if it has a part at every index of its stacked
    // dims, and if all its parts have the same shape.
    DistKeys take() && {
        for (auto one = keys_.begin(); one != keys_.end();)
            one = fill_in(one->second) ? std::next(one) : keys_.erase(one);
        return std::move(keys_);
    }

  private:
    bool fill_in(DistTensor& one) const {
        one.stacked = one.parts.back().origin;
        if (one.by_layer && one.stacked[0] != layers_ - 1) return false;
        std::int64_t count = 1;
        for (std::int64_t& dim : one.stacked) count *= ++dim;
        if (count != static_cast<std::int64_t>(one.parts.size())) return false;
        Shape whole = one.stacked;
        whole.insert(whole.end(), one.shape.begin(), one.shape.end());
        for (std::size_t i = 0; i < one.parts.size(); ++i) {
            Stored& part = one.parts[i];
            auto rest = static_cast<std::int64_t>(i);
            for (std::size_t dim = one.stacked.size(); dim-- > 0; rest /= one.stacked[dim])
                if (part.origin[dim] != rest % one.stacked[dim]) return false;
            if (part.shape != one.shape) return false;
            part.whole = whole;
            part.origin.resize(whole.size(), 0);
        }
        return true;
    }
    const Model& model_;
    std::int64_t layers_;
    DistKeys keys_;
};

// Splits a fused gate and up tensor into two tensors with the name endings "_w" (gate) and "_v"
// (up). Returns an empty list for other tensors.
std::vector<std::pair<std::string, NativeTensor>> halves_of(const NativeTensor& tensor) {
    std::vector<std::pair<std::string, NativeTensor>> halves;
    if (tensor.operation != families::Operation::GateUp || tensor.sources.size() != 2)
        return halves;
    for (const std::size_t source : {0U, 1U}) {
        NativeTensor half = tensor;
        half.operation = families::Operation::Copy;
        half.sources = {tensor.sources[source]};
        half.shape = half.sources[0].shape;
        halves.emplace_back(source == 0 ? "_w" : "_v", std::move(half));
    }
    return halves;
}

// Adds a key for each layer and expert, and separate keys for gate and up, as Megatron does for
// singleton_local_shards and fsdp_dtensor.
Result<void> add_singletons(Collector& collector, const NativeTensor& tensor) {
    std::vector<std::pair<std::string, NativeTensor>> parts = halves_of(tensor);
    parts.emplace_back("", tensor);
    for (auto& [ending, part] : parts) {
        std::set<std::string> names{tensor.name + ending};
        if (tensor.expert) {
            std::string indexed = tensor.name;
            indexed.replace(indexed.find(kLocalExperts), std::strlen(kLocalExperts),
                            ".experts.experts.");
            names.insert(indexed + ending);
            names.insert(grouped_spelling(tensor.name, *tensor.expert) + ending);
            part.expert.reset();
        }
        for (const std::string& name : names)
            if (tensor.expert || !ending.empty()) ROLL_TRY_VOID(collector.add(name, part, false));
    }
    return {};
}

bool is_listed(const Json& config, const char* key) {
    const auto found = config.find(key);
    if (found == config.end()) return false;
    return found->is_array() || (found->is_number_integer() && *found > 1);
}

// Returns how many of the numbers `at`, `at` + `step`, `at` + 2 `step`, ... are less than `end`.
std::int64_t steps_before(std::int64_t at, std::int64_t end, std::int64_t step) {
    return end <= at ? 0 : (end - at + step - 1) / step;
}

// Clips `piece` to the block [begin, begin + size) and makes its place relative to `begin`. Returns
// false if nothing is left.
bool clip(Piece& piece, const Shape& begin, const Shape& size) {
    std::vector<bool> placed(size.size(), false);
    for (std::size_t dim = 0; dim < piece.size.size(); ++dim) {
        const std::size_t axis = piece.placing.axis(dim);
        const std::int64_t step = piece.placing.step(dim);
        const std::int64_t at = piece.stored_begin[axis];
        const std::int64_t first = steps_before(at, begin[axis], step);
        const std::int64_t last =
            std::min(piece.size[dim], steps_before(at, begin[axis] + size[axis], step));
        if (first >= last) return false;
        piece.begin[dim] += first;
        piece.size[dim] = last - first;
        piece.stored_begin[axis] = at + first * step - begin[axis];
        placed[axis] = true;
    }
    for (std::size_t axis = 0; axis < size.size(); ++axis) {
        if (placed[axis]) continue;
        piece.stored_begin[axis] -= begin[axis];
        if (piece.stored_begin[axis] < 0 || piece.stored_begin[axis] >= size[axis]) return false;
    }
    return true;
}

}  // namespace

// Decides as Megatron's TransformerBlock.sharded_state_dict does.
bool stacks_layers(const Json& native) {
    return !is_listed(native, "moe_layer_freq") && !is_listed(native, "linear_attention_freq") &&
           !formats::is_true(native, "heterogeneous_block_specs") &&
           !formats::is_true(native, "hetereogenous_dist_checkpoint");
}

std::string without_layer(std::string name, std::int64_t layer) {
    const std::string infix = ".layers." + std::to_string(layer) + ".";
    const std::size_t at = name.find(infix);
    return at == std::string::npos ? name : name.replace(at, infix.size(), ".layers.");
}

Result<DistKeys> dist_keys(const std::vector<NativeTensor>& native, const Model& model,
                           bool singletons) {
    std::int64_t layers = 0;
    for (const NativeTensor& tensor : native)
        if (tensor.stage == families::Stage::Layer) layers = std::max(layers, *tensor.layer + 1);
    Collector collector(model, layers);
    for (const NativeTensor& tensor : native) {
        const std::string name =
            tensor.expert ? without_expert(tensor.name, *tensor.expert) : tensor.name;
        for (const std::string& spelling :
             std::set<std::string>{name, local_spelling(name), transformer_engine_spelling(name)}) {
            ROLL_TRY_VOID(collector.add(spelling, tensor, false));
            if (tensor.stage == families::Stage::Layer)
                ROLL_TRY_VOID(collector.add(without_layer(spelling, *tensor.layer), tensor, true));
        }
        if (singletons) ROLL_TRY_VOID(add_singletons(collector, tensor));
    }
    return std::move(collector).take();
}

std::vector<std::string> dist_names(const NativeTensor& tensor) {
    std::vector<std::string> names{tensor.expert ? without_expert(tensor.name, *tensor.expert)
                                                 : tensor.name};
    if (tensor.stage == families::Stage::Layer)
        names.push_back(without_layer(names.front(), *tensor.layer));
    return names;
}

Result<std::vector<Stored>> dist_layout(const std::vector<NativeTensor>& native, const Model& model,
                                        const formats::McaConfig& config, const std::string& file) {
    ROLL_TRY(const DistKeys keys, dist_keys(native, model, false));
    const bool per_layer = !stacks_layers(config.native);
    std::vector<Stored> layout;
    std::set<std::string> done;
    for (const NativeTensor& tensor : native) {
        std::string key = tensor.expert ? without_expert(tensor.name, *tensor.expert) : tensor.name;
        // Without TransformerEngine, Megatron stores the norm of a MoE layer under the name that
        // the norm of a dense layer has with TransformerEngine.
        if (config.local_names && key.ends_with(".pre_mlp_layernorm.weight"))
            key = transformer_engine_spelling(key);
        if (tensor.stage == families::Stage::Layer && !per_layer) {
            const std::string stacked = without_layer(key, *tensor.layer);
            if (keys.contains(stacked)) key = stacked;
        }
        if (!done.insert(key).second) continue;
        for (Stored part : keys.at(key).parts) {
            part.file = file;
            layout.push_back(std::move(part));
        }
    }
    return layout;
}

Result<std::vector<Stored>> fsdp_layout(const std::vector<NativeTensor>& native, const Model& model,
                                        const formats::McaConfig& config, const std::string& file) {
    std::vector<Stored> layout;
    for (const NativeTensor& tensor : native) {
        std::vector<std::pair<std::string, NativeTensor>> parts = halves_of(tensor);
        if (parts.empty()) parts.emplace_back("", tensor);
        std::string key = config.local_names ? local_spelling(tensor.name) : tensor.name;
        if (tensor.expert && config.grouped_experts) key = grouped_spelling(key, *tensor.expert);
        for (const auto& [ending, part] : parts) {
            ROLL_TRY(Stored stored, whole_native(part, model));
            stored.file = file;
            stored.name = kFsdpPrefix + newer_spelling(key) + ending;
            stored.whole = stored.shape;
            stored.origin.assign(stored.shape.size(), 0);
            layout.push_back(std::move(stored));
        }
    }
    return layout;
}

Stored cut(const Stored& part, const Shape& begin, const Shape& size) {
    Stored result{part.file, part.section, part.name, size, {}, part.optional};
    for (Piece piece : part.pieces)
        if (clip(piece, begin, size)) result.pieces.push_back(std::move(piece));
    return result;
}

}  // namespace roll::convert
