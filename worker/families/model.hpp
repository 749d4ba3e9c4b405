// Applies a family to a model's config: derives the native (Megatron) config and every tensor with
// its shape. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/model.hpp"
#include "worker/families/family.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// Returns a complete HuggingFace config: model_type, and the family's defaults, overridden by the
// `sizes` of a job file. Fails with InvalidArgument if a key is unknown to the family or missing.
Result<Json> complete_hf_config(const Family& family, const Json& sizes);

// Sets the values of HuggingFace keys ("a.b" in nested objects) and of the native fields that
// derive from them. Fails with InvalidArgument if a key is unknown to the family.
Result<void> set_keys(const Family& family, const Json& keys, Json& hf_config, Json& native);

// Returns the native config that belongs to a HuggingFace config, with the family's fields only.
// Fails with InvalidArgument if a key is missing or has a value that the family does not cover; the
// message names the key.
Result<Json> native_config(const Family& family, const Json& hf_config);

// Returns the trainer's config of a model, from its native config or a whole mca_config.json. Fails
// with InvalidArgument if the trainer does not support a field or tensor; the message names the
// field or tensor.
Result<spec::ModelConfig> model_config(const Family& family, const Json& native);

// Returns the tensor that a rule gives for layer 0 and expert 0. `scope` is the native config with
// the HuggingFace config under "hf". Fails with InvalidArgument if a division has a remainder or
// the strands do not use each row once.
Result<NativeTensor> tensor_of(const Family& family, const WeightRule& rule, const Json& scope);

// A tensor on disk that packs other tensors. members[e] are the tensors of expert e, all of one
// shape.
struct PackedTensor {
    std::string name;
    Packing packing = Packing::Stacked;
    std::vector<std::vector<std::string>> members;
    std::string condition;  // native field that is true if the tensors are packed
};

// Returns the packed tensors of all decoder layers, whether or not their conditions are true.
Result<std::vector<PackedTensor>> packed_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config);

// A second name under which HuggingFace files store tensor `of`.
struct CopiedTensor {
    std::string name;
    std::string of;
    std::string condition;  // native field that is true if the copy exists; empty: it always exists
};

// Returns the copies in all multi-token-prediction layers, whether or not their conditions are
// true.
Result<std::vector<CopiedTensor>> copied_tensors(const Family& family, const Json& native);

// Returns every tensor of a model with this config in forward order: embedding, layers, final norm,
// output layer, multi-token-prediction layers. Omits a tied output layer. `hf_config` gives each
// layer's kind; families with one kind of layer do not need `hf_config`.
Result<std::vector<NativeTensor>> native_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config = Json::object());

// Returns the last parts of the HuggingFace names of the tensors, without ".weight", such as
// "q_proj" for "model.layers.0.self_attn.q_proj.weight". A part may occur more than once.
std::vector<std::string> modules_of(const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
