#include "worker/train/prove/cut_layers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/spec/train/pipeline_layout.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {
namespace {

constexpr const char* kLayers = "decoder.layers.";

// The kind of a layer, as a list of texts. The first text is the size of the sliding window. Each
// pattern that matches a parameter of the layer adds a text: the parameter's name without the layer
// and the effect of the pattern, such as "... is frozen".
using Kind = std::vector<std::string>;

// The name of a parameter without its layer, and the number of the layer; -1: the parameter is in
// no layer.
struct PlacedName {
    std::int64_t layer = -1;
    std::string rest;
};

PlacedName placed(const std::string& name) {
    if (!name.starts_with(kLayers)) return {-1, name};
    std::size_t used = 0;
    const std::string tail = name.substr(std::string(kLayers).size());
    const std::int64_t layer = std::stoll(tail, &used);
    return {layer, tail.substr(used + 1)};
}

std::string name_of(const PlacedName& name) {
    if (name.layer < 0) return name.rest;
    return kLayers + std::to_string(name.layer) + "." + name.rest;
}

// Returns how the decay patterns treat a parameter: "decays", "does not decay", or "" if no pattern
// matches.
std::string decay_of(const spec::TrainSpec& spec, const std::string& name) {
    for (const auto& [glob, decays] : spec.optimizer.decays)
        if (matches_any({glob}, name)) return decays ? "decays" : "does not decay";
    return "";
}

// Returns the index of the parameter group that has the parameter; -1 if no group has it.
int group_number(const std::vector<spec::ParameterGroup>& groups, const std::string& name) {
    const auto group = std::ranges::find_if(
        groups, [&](const spec::ParameterGroup& one) { return matches_any(one.globs, name); });
    return group == groups.end() ? -1 : static_cast<int>(group - groups.begin());
}

std::vector<Kind> kinds_of(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                           const std::vector<ParameterSpec>& parameters) {
    std::vector<Kind> kinds(static_cast<std::size_t>(config.layers));
    for (std::int64_t i = 0; i < config.layers; ++i)
        kinds[static_cast<std::size_t>(i)] = {std::to_string(config.window_of(i))};
    for (const ParameterSpec& parameter : parameters) {
        const PlacedName name = placed(parameter.name);
        if (name.layer < 0) continue;
        Kind& kind = kinds[static_cast<std::size_t>(name.layer)];
        if (matches_any(spec.model.freeze, parameter.name))
            kind.push_back(name.rest + " is frozen");
        const std::string decay = decay_of(spec, parameter.name);
        if (!decay.empty()) kind.push_back(name.rest + " " + decay);
        if (const int group = group_number(spec.optimizer.groups, parameter.name); group >= 0)
            kind.push_back(name.rest + " is in group " + std::to_string(group));
    }
    return kinds;
}

// Like cut_stages(), for a layout string. A part that has more layers than another part also has
// more in the small model. If the small job has fewer stages, it has the first parts and the last
// part.
std::int64_t cut_layout(spec::ParallelSpec& p, std::int64_t needed) {
    std::vector<std::int64_t> parts;
    for (const std::string& part :
         spec::layout_parts(p.pipeline_layout).value_or(std::vector<std::string>()))
        parts.push_back(std::ranges::count(part, 't'));
    const auto kept = static_cast<std::size_t>(p.pp) * static_cast<std::size_t>(p.vpp);
    if (parts.size() > kept)
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(kept) - 1, parts.end() - 1);
    std::set<std::int64_t> sizes(parts.begin(), parts.end());
    sizes.erase(0);
    if (sizes.empty()) {  // all layers are in parts that the small job lacks
        parts.front() = needed;
        sizes.insert(needed);
    }
    std::vector<std::int64_t> small(parts.size());
    std::int64_t all = 0;
    for (std::int64_t more = 0; all < needed && more < *sizes.begin(); ++more) {
        all = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const auto place = std::distance(sizes.begin(), sizes.find(parts[i]));
            small[i] = parts[i] == 0 ? 0 : place + 1 + more;
            all += small[i];
        }
    }
    p.pipeline_layout = spec::layout_string(small);
    return all;
}

// Returns the smallest number of layers of the small model: at least `needed`, if the model has
// that many layers. Also sets the numbers of layers of the first and the last stage. If one of
// these stages has more layers than other stages in the model, it also has more in the small
// model.
std::int64_t cut_stages(spec::ParallelSpec& p, const spec::ParallelSpec& from, std::int64_t layers,
                        std::int64_t needed) {
    if (!p.pipeline_layout.empty()) return cut_layout(p, needed);
    const std::int64_t chunks = std::int64_t{p.pp} * p.vpp;
    if (p.first_layers == 0 && p.last_layers == 0) {
        const std::int64_t accounted = p.account_for_embedding + p.account_for_loss;
        const std::int64_t each = (layers + accounted) / (std::int64_t{from.pp} * from.vpp);
        std::int64_t small = std::min<std::int64_t>(each, accounted > 0 ? 2 : 1);
        while (small < each && chunks * small - accounted < needed) ++small;
        return chunks * small - accounted;
    }
    const auto others = [](const spec::ParallelSpec& of) {
        return std::int64_t{of.pp} - (of.first_layers > 0) - (of.last_layers > 0);
    };
    const std::int64_t rest = layers - from.first_layers - from.last_layers;
    const std::int64_t each = others(from) > 0 ? rest / others(from) : 0;
    std::set<std::int64_t> sizes = {from.first_layers, from.last_layers, each};
    sizes.erase(0);
    std::int64_t first = 0, last = 0, all = 0;
    for (std::int64_t more = 0; more < *sizes.begin() / p.vpp; ++more) {
        const auto small = [&](std::int64_t size) {
            const auto place = std::distance(sizes.begin(), sizes.find(size));
            return size == 0 ? 0 : (place + 1 + more) * p.vpp;
        };
        first = small(from.first_layers);
        last = small(from.last_layers);
        all = first + last + others(p) * small(each);
        if (all >= needed) break;
    }
    p.first_layers = static_cast<int>(first);
    p.last_layers = static_cast<int>(last);
    return all;
}

// Returns, for each layer of the small model, the layer of the model that it represents. First
// spreads the represented layers evenly, including the first and the last. Then replaces some of
// these layers so that each kind of layer occurs.
std::vector<std::int64_t> chosen_layers(const std::vector<Kind>& kinds, std::int64_t count) {
    std::vector<std::int64_t> chosen;
    const auto all = std::ssize(kinds);
    for (std::int64_t i = 0; i < count; ++i)
        chosen.push_back(count == 1 ? 0 : i * (all - 1) / (count - 1));
    std::map<Kind, std::int64_t> uses;
    const auto kind_of = [&](std::int64_t layer) { return kinds[static_cast<std::size_t>(layer)]; };
    for (const std::int64_t layer : chosen) ++uses[kind_of(layer)];
    for (std::int64_t layer = 0; layer < all; ++layer) {
        if (uses.contains(kind_of(layer))) continue;
        const auto spare = std::ranges::find_if(
            chosen, [&](std::int64_t other) { return uses[kind_of(other)] > 1; });
        if (spare == chosen.end()) break;
        --uses[kind_of(*spare)];
        ++uses[kind_of(layer)];
        *spare = layer;
    }
    std::ranges::sort(chosen);
    return chosen;
}

}  // namespace

void cut_layers(spec::TrainSpec& spec, spec::ModelConfig& config, const spec::ParallelSpec& from) {
    const std::vector<ParameterSpec> parameters = parameter_specs(config, whole_chunk(config));
    const std::vector<Kind> kinds = kinds_of(spec, config, parameters);
    const auto different = std::ssize(std::set<Kind>(kinds.begin(), kinds.end()));
    const std::int64_t needed =
        std::min<std::int64_t>(config.layers, std::max<std::int64_t>(different, 2));
    const std::int64_t count = cut_stages(spec.parallel, from, config.layers, needed);
    const std::vector<std::int64_t> chosen = chosen_layers(kinds, count);

    std::vector<std::string> freeze;
    std::vector<std::pair<std::string, bool>> decays;
    std::vector<spec::ParameterGroup> groups = spec.optimizer.groups;
    for (spec::ParameterGroup& group : groups) group.globs.clear();
    for (const ParameterSpec& parameter : parameters) {
        PlacedName name = placed(parameter.name);
        const auto note = [&](std::int64_t layer) {
            name.layer = layer;
            if (matches_any(spec.model.freeze, parameter.name)) freeze.push_back(name_of(name));
            const std::string decay = decay_of(spec, parameter.name);
            if (!decay.empty()) decays.emplace_back(name_of(name), decay == "decays");
            if (const int group = group_number(spec.optimizer.groups, parameter.name); group >= 0)
                groups[static_cast<std::size_t>(group)].globs.push_back(name_of(name));
        };
        const std::int64_t layer = name.layer;
        if (layer < 0) note(-1);
        for (std::size_t i = 0; layer >= 0 && i < chosen.size(); ++i)
            if (chosen[i] == layer) note(static_cast<std::int64_t>(i));
    }
    spec.model.freeze = freeze;
    spec.optimizer.decays = decays;
    spec.optimizer.groups = groups;
    std::vector<bool> sliding;
    for (const std::int64_t layer : chosen)
        if (!config.sliding_layers.empty())
            sliding.push_back(config.sliding_layers[static_cast<std::size_t>(layer)]);
    config.sliding_layers = sliding;
    config.layers = count;
}

}  // namespace roll::train
