// Determines where the backward of a job ends: at the lowest part of the model that has a trained
// parameter. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the number of the layer that a parameter belongs to; -1: the parameter is in no layer.
std::int64_t layer_number(const std::string& parameter);

// Returns the lowest part of the model that has a trained parameter. LoRA and the globs `freeze`
// freeze parameters. The result is -1 for the embedding, the number of a layer, config.layers for
// the final norm, or config.layers + 1 for the output layer.
std::int64_t lowest_trained(const spec::ModelConfig& config,
                            const std::vector<std::string>& freeze);

// Returns the chunks of stage_chunks(), with ChunkSpec::lowest set.
std::vector<ChunkSpec> trained_chunks(const spec::ModelConfig& config, const StageSplit& split,
                                      const std::vector<std::string>& freeze);

}  // namespace roll::train
