// Maps the model's tensors to the keys of a distributed checkpoint (Megatron's torch_dist). A key
// holds a whole tensor, so the keys do not depend on the number of ranks. Layers of the same kind,
// and their experts, are stacked along leading dims. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// Megatron's kinds of distributed optimizers, by the names in their checkpoints.
inline constexpr const char* kFullyReshardable = "fully_reshardable";
inline constexpr const char* kDpReshardable = "dp_reshardable";

// ROLL's directory of a distributed optimizer, beside the weights of an iteration
inline constexpr const char* kOptimizerPart = "dist_optimizer";

// Returns true if Megatron stacks the layers of a model with this native config under one key. It
// does not stack layers of different kinds.
bool stacks_layers(const Json& native);

// Returns "a.layers.b" for "a.layers.3.b": the key of a tensor of layer `layer`, if layers are
// stacked.
std::string without_layer(std::string name, std::int64_t layer);

// The content of one key. It consists of tensors, called parts, that are stacked along leading
// dims.
struct DistTensor {
    Shape stacked;  // sizes of the stacked dims: [layers], [experts], [layers, experts] or empty
    bool by_layer = false;      // true: the first stacked dim has all layers of the model
    Shape shape;                // shape of each part
    std::vector<Stored> parts;  // the parts, row-major over `stacked`
};

// All keys that a checkpoint may have. A tensor may have several alternative keys: a key for all
// layers, a key for its layer, or a different spelling of a norm's name. With `singletons`,
// dist_keys() also adds one key per expert, in all of Megatron's spellings, and separate keys for
// gate and up.
using DistKeys = std::map<std::string, DistTensor>;
Result<DistKeys> dist_keys(const std::vector<families::NativeTensor>& native, const Model& model,
                           bool singletons);

// Returns the keys that may hold a native tensor. These are the tensor's own name, and the key
// under which all layers are stacked.
std::vector<std::string> dist_names(const families::NativeTensor& tensor);

// Returns the chunks to write to `file`, one per part. Layers are stacked if Megatron would stack
// them for this native config. `config.local_names` affects only the name of a MoE layer's norm.
Result<std::vector<Stored>> dist_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Like dist_layout(), but for checkpoints of Megatron's FSDP (fsdp_dtensor). Such checkpoints have
// one key per tensor, layer and expert, and separate keys for gate and up.
Result<std::vector<Stored>> fsdp_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Returns the part of a stored tensor in the block [begin, begin + size). The pieces of the result
// are relative to the beginning of the block.
Stored cut(const Stored& part, const Shape& begin, const Shape& size);

}  // namespace roll::convert
