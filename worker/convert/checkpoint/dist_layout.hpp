// Maps the model's tensors to the keys of a distributed checkpoint (Megatron's torch_dist). A key
// holds a whole tensor, so keys do not depend on the number of ranks. Layers of one kind, and their
// experts, are stacked along leading dims. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// The content of one key: tensors, called parts, that are stacked along the leading dims.
struct DistTensor {
    Shape stacked;  // sizes of the stacked dims: [layers], [experts], [layers, experts] or empty
    bool by_layer = false;      // true: the first stacked dim has all layers of the model
    Shape shape;                // shape of each part
    std::vector<Stored> parts;  // the parts, row-major over `stacked`
};

// All keys that a checkpoint may have. If several keys are alternatives for one tensor, a
// checkpoint has only one of them. Alternatives are a key for all layers and a key per layer, and
// the spellings of a norm's name. With `singletons`, dist_keys() adds one key per expert, in all of
// Megatron's spellings, and separate keys for gate and up.
using DistKeys = std::map<std::string, DistTensor>;
Result<DistKeys> dist_keys(const std::vector<families::NativeTensor>& native, const Model& model,
                           bool singletons);

// Returns the keys that may hold a native tensor: the tensor's own name, and the key stacked over
// all layers.
std::vector<std::string> dist_names(const families::NativeTensor& tensor);

// Returns the chunks to write into `file`, one per part. Layers are stacked if Megatron would stack
// them for the native config. `config.local_names` affects only the name of a MoE layer's norm.
Result<std::vector<Stored>> dist_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Like dist_layout(), for checkpoints of Megatron's FSDP (fsdp_dtensor). They have a key per
// tensor, layer and expert, and separate keys for gate and up.
Result<std::vector<Stored>> fsdp_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Returns the part of a stored tensor that is in the box [begin, begin + size). The pieces of the
// result are relative to the box's origin.
Stored cut(const Stored& part, const Shape& begin, const Shape& size);

}  // namespace roll::convert
