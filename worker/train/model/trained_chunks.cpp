#include "worker/train/model/trained_chunks.hpp"

#include <algorithm>
#include <string_view>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

std::int64_t layer_number(const std::string& parameter) {
    constexpr std::string_view kLayers = "decoder.layers.";
    return parameter.starts_with(kLayers) ? std::stoll(parameter.substr(kLayers.size())) : -1;
}

std::int64_t lowest_trained(const spec::ModelConfig& config,
                            const std::vector<std::string>& freeze) {
    if (!config.lora.is_set() && freeze.empty()) return -1;
    std::vector<ParameterSpec> specs = parameter_specs(config, whole_chunk(config));
    mark_frozen(specs, freeze);
    // The parameters are in the order of forward, so the first trained parameter is the lowest.
    const auto lowest = std::ranges::find(specs, false, &ParameterSpec::frozen);
    if (lowest == specs.begin()) return -1;
    if (lowest == specs.end()) return config.layers + 1;
    if (const std::int64_t layer = layer_number(lowest->name); layer >= 0) return layer;
    return config.layers + (lowest->name.starts_with("decoder.") ? 0 : 1);
}

std::vector<ChunkSpec> trained_chunks(const spec::ModelConfig& config, const StageSplit& split,
                                      const std::vector<std::string>& freeze) {
    std::vector<ChunkSpec> chunks = stage_chunks(config, split);
    const std::int64_t lowest = lowest_trained(config, freeze);
    for (ChunkSpec& chunk : chunks) chunk.lowest = lowest;
    return chunks;
}

}  // namespace roll::train
