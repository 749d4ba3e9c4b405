// What a family makes of one model's config: the native config, and every tensor with its shape.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/model.hpp"
#include "common/tensor/view.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// A whole HuggingFace config from the sizes that a job file gives: the family's defaults, then
// `sizes` over them, and model_type. InvalidArgument: a key that the family does not know, or one
// missing.
Result<Json> complete_hf_config(const Family& family, const Json& sizes);

// Sets HuggingFace keys ("a.b" in objects) to other values, and the native fields that are read
// from them. InvalidArgument: a key that the family does not know.
Result<void> set_keys(const Family& family, const Json& keys, Json& hf_config, Json& native);

// The native config of a HuggingFace config: the family's fields only. InvalidArgument names the
// key that is missing or has a value that the family does not cover.
Result<Json> native_config(const Family& family, const Json& hf_config);

// The trainer's view of a native config (or of a whole mca_config.json) and of the tensors that the
// family gives it. InvalidArgument names what the trainer does not build yet, a field or a tensor.
Result<spec::ModelConfig> model_config(const Family& family, const Json& native);

struct HfTensor {
    std::string name;
    tensor::Shape shape;
};

// A StrandRule in numbers.
struct Strand {
    std::size_t of = 0;
    std::int64_t begin = 0;
    std::int64_t rows = 0;
    std::int64_t times = 1;
    std::int64_t step = 0;
    std::int64_t block = 0;
};

// One native tensor of the whole model, unsplit. `layer` is its decoder layer, counted over the
// model.
struct NativeTensor {
    std::string name;  // {layer} replaced by `layer`
    tensor::Shape shape;
    std::vector<HfTensor> sources;
    Operation operation = Operation::Copy;
    Split split = Split::None;
    Stage stage = Stage::Layer;
    std::optional<std::int64_t> layer;
    std::optional<std::int64_t> expert;  // counted over the layer's experts
    std::int64_t unit = 1;               // rows that stay together: of Qkv a head's
    std::int64_t groups = 0;             // of Strands
    bool by_group = false;
    std::vector<Strand> strands = {};
    double add = 0;           // native = HuggingFace + add
    bool keeps_fp32 = false;  // a cast to another type leaves it F32
};

// The tensor of one rule, of layer 0 and expert 0. `scope`: the native config, the HuggingFace one
// under "hf". InvalidArgument: arithmetic that does not come out, or strands that do not take each
// row once.
Result<NativeTensor> tensor_of(const Family& family, const WeightRule& rule, const Json& scope);

// A tensor on disk that holds others: those of expert e are members[e], all of one shape.
struct PackedTensor {
    std::string name;
    Packing packing = Packing::Stacked;
    std::vector<std::vector<std::string>> members;
    std::string condition;  // the native field that says so
};

// All that the family knows of in decoder layers, whatever their conditions say.
Result<std::vector<PackedTensor>> packed_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config);

// Tensor `of` is on disk a second time, under `name`.
struct CopiedTensor {
    std::string name;
    std::string of;
    std::string condition;  // the native field that says so; empty: always
};

// The copies of every layer of multi-token prediction, whatever their conditions say.
Result<std::vector<CopiedTensor>> copied_tensors(const Family& family, const Json& native);

// Every tensor that a model of this config has, in the order of use in forward: embedding, layers,
// final norm, output layer, and
// the layers of multi-token prediction. A tied output layer is not listed. The HuggingFace config
// decides which layers are of which kind; families with one kind need none.
Result<std::vector<NativeTensor>> native_tensors(const Family& family, const Json& native,
                                                 const Json& hf_config = Json::object());

}  // namespace roll::families
