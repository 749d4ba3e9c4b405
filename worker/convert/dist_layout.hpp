// Maps the model's tensors to the keys of a distributed checkpoint (Megatron's torch_dist). Keys do
// not depend on ranks: a key holds a whole tensor. Layers of one kind, and their experts, are
// stacked along leading dims. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// The contents of one key: parts along the stacked dims. Each part is a tensor with pieces.
struct DistTensor {
    Shape stacked;              // [layers], [experts], [layers, experts] or empty
    bool by_layer = false;      // the first stacked dim counts all the model's layers
    Shape shape;                // shape of each part
    std::vector<Stored> parts;  // row-major over `stacked`
};

// Returns every key that some writer uses: stacked and per layer, with all spellings of norms. With
// `singletons` also a key per expert (grouped or not), and gate and up apart. A checkpoint has one
// of these alternatives for each part.
using DistKeys = std::map<std::string, DistTensor>;
Result<DistKeys> dist_keys(const std::vector<families::NativeTensor>& native, const Model& model,
                           bool singletons);

// Returns the keys that may hold a native tensor: its own, and the one stacked over all layers.
std::vector<std::string> dist_names(const families::NativeTensor& tensor);

// Returns the chunks to write into `file`, one per part. Layers are stacked if Megatron would stack
// them for this native config. `config.local_names` affects one norm only.
Result<std::vector<Stored>> dist_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// The same for Megatron's FSDP (fsdp_dtensor): a key per tensor, layer and expert, with gate and up
// apart.
Result<std::vector<Stored>> fsdp_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// Returns the part of a tensor in the box [begin, begin + size), with its pieces shifted to the
// box.
Stored cut(const Stored& part, const Shape& begin, const Shape& size);

}  // namespace roll::convert
