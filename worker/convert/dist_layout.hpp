// Where a distributed checkpoint (Megatron's torch_dist) has what of the model. Its keys know no
// ranks: a tensor is whole under its key, layers of one kind and their experts stacked along dims
// in front. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// What lies under one key: parts along the stacked dims, each a tensor with pieces.
struct DistTensor {
    Shape stacked;              // layers, experts; empty, one or both
    bool by_layer = false;      // the first of them is that of all the model's layers
    Shape shape;                // of each part
    std::vector<Stored> parts;  // row-major over `stacked`
};

// Every key under which some writer keeps a part of the model: stacked and layer by layer, with the
// spellings of norms; of `singletons` also each expert, grouped or not, gate and up by itself.
// Where a checkpoint has one of them, the others are absent.
using DistKeys = std::map<std::string, DistTensor>;
Result<DistKeys> dist_keys(const std::vector<families::NativeTensor>& native, const Model& model,
                           bool singletons);

// The keys under which a native tensor may lie: by itself, and stacked with those of all layers.
std::vector<std::string> dist_names(const families::NativeTensor& tensor);

// The chunks to write into `file`, one for each part: with stacked layers if Megatron would have
// them so for this native config, else layer by layer. `local_names` of the config matters for one
// norm only.
Result<std::vector<Stored>> dist_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// The same as Megatron's FSDP keeps it (fsdp_dtensor): a key for each tensor of each layer, experts
// by number, gate and up by themselves.
Result<std::vector<Stored>> fsdp_layout(const std::vector<families::NativeTensor>& native,
                                        const Model& model, const formats::McaConfig& config,
                                        const std::string& file);

// The part of a tensor that the box [begin, begin + size) holds, its pieces moved along.
Stored cut(const Stored& part, const Shape& begin, const Shape& size);

}  // namespace roll::convert
