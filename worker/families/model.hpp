// Applies a family to a model's config: derives the native (Megatron) config and every tensor with
// its shape. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/train/model.hpp"
#include "worker/families/family.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// Returns a complete HuggingFace config. It has the model_type and the family's defaults; the
// `sizes` of a job file override the defaults. Fails with InvalidArgument if a key is missing, or
// if the family does not know a key.
Result<Json> complete_hf_config(const Family& family, const Json& sizes);

// Sets the values of HuggingFace keys ("a.b" in nested objects), and of the native fields that
// depend on these keys. Fails with InvalidArgument if the family does not know a key.
Result<void> set_keys(const Family& family, const Json& keys, Json& hf_config, Json& native);

// Returns the native config of a HuggingFace config. The native config has only the family's
// fields. Fails with InvalidArgument if a key is missing or has a value that the family does not
// cover; the message names the key.
Result<Json> native_config(const Family& family, const Json& hf_config);

// Returns the trainer's config of a model. `native` is the model's native config, or the whole
// content of mca_config.json. Fails with InvalidArgument if the trainer does not support a field or
// tensor; the message names the field or tensor.
Result<spec::ModelConfig> model_config(const Family& family, const Json& native);

// Returns the tensor that a rule describes for layer 0 and expert 0. `scope` is the native config
// with the HuggingFace config under the key "hf". Fails with InvalidArgument if a division has a
// remainder, or if the strands do not use each row exactly once.
Result<NativeTensor> tensor_of(const Family& family, const WeightRule& rule, const Json& scope);

// A tensor on disk that packs other tensors. members[e] are the names of the tensors of expert e.
// All packed tensors have the same shape.
struct PackedTensor {
    std::string name;
    Packing packing = Packing::Stacked;
    std::vector<std::vector<std::string>> members;
    std::string condition;  // native field that is true if the tensors are packed
};

// Returns the packed tensors of all decoder layers, including tensors whose condition is false.
Result<std::vector<PackedTensor>> packed_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config);

// A second name under which HuggingFace files store the tensor that is named `of`.
struct CopiedTensor {
    std::string name;
    std::string of;
    std::string condition;  // native field that is true if the copy exists; empty: it always exists
};

// Returns the copies in all multi-token prediction layers, including copies whose condition is
// false.
Result<std::vector<CopiedTensor>> copied_tensors(const Family& family, const Json& native);

// Returns every tensor of a model in forward order: embedding, layers, final norm, output layer,
// multi-token prediction layers. Omits a tied output layer. A model whose architecture is
// ...ForSequenceClassification has a score (kScore) in place of the output layer. `hf_config`
// determines the kind of each layer; families with only one kind of layer do not need it.
Result<std::vector<NativeTensor>> native_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config = Json::object());

// Returns the tensors' HuggingFace names without their last parts, for example
// "model.layers.0.self_attn.q_proj". A name may occur more than once.
std::vector<std::string> modules_of(const std::vector<NativeTensor>& tensors);

}  // namespace roll::families
