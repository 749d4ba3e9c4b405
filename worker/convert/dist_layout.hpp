// Maps the model's tensors to the keys of a distributed checkpoint (Megatron's torch_dist). Keys do
// not depend on ranks, because a key holds a whole tensor. Layers of one kind, and their experts,
// are stacked along leading dims. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// The content of one key: tensors, called parts, that are stacked along the leading dims.
struct DistTensor {
    Shape stacked;              // the stacked dims: [layers], [experts], [layers, experts] or empty
    bool by_layer = false;      // the first stacked dim has all layers of the model
    Shape shape;                // shape of each part
    std::vector<Stored> parts;  // the parts, row-major over `stacked`
};

// Returns every key that any writer may use: stacked and per layer, with all spellings of norms.
// With `singletons`, also a key per expert (grouped or not), and separate keys for gate and up. A
// checkpoint has one of these alternatives for each part.
using DistKeys = std::map<std::string, DistTensor>;
Result<DistKeys> dist_keys(const std::vector<families::NativeTensor>& native, const Model& model,
                           bool singletons);

// Returns the keys that may hold a native tensor: the tensor's own name, and the key stacked over
// all layers.
std::vector<std::string> dist_names(const families::NativeTensor& tensor);

// Returns the chunks to write into `file`, one per part. Layers are stacked if Megatron would stack
// them for this native config. `config.local_names` affects the name of one norm only.
Result<std::vector<Stored>> dist_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Like dist_layout(), for Megatron's FSDP (fsdp_dtensor), which has a key per tensor, layer and
// expert, and separate keys for gate and up.
Result<std::vector<Stored>> fsdp_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Returns the part of a tensor that is in the box [begin, begin + size). The pieces are relative to
// the box's origin.
Stored cut(const Stored& part, const Shape& begin, const Shape& size);

}  // namespace roll::convert
