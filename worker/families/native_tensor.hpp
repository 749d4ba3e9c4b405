// A tensor of the native (Megatron) model, and the HuggingFace tensors of which it consists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Native and HuggingFace name of a reward model's score. The score has the shape [labels, hidden],
// and takes the place of the output layer.
inline constexpr const char* kScore = "score.weight";

struct HfTensor {
    std::string name;
    tensor::Shape shape;
};

// A StrandRule with evaluated expressions. It selects rows of one source tensor.
struct Strand {
    std::size_t of = 0;
    std::int64_t begin = 0;
    std::int64_t rows = 0;
    std::int64_t times = 1;
    std::int64_t step = 0;
    std::int64_t block = 0;
};

// One native tensor as it is without parallelism. `layer` is the number of its decoder layer in the
// whole model, from 0.
struct NativeTensor {
    std::string name;  // the rule's name with its placeholders replaced
    tensor::Shape shape;
    std::vector<HfTensor> sources;
    Operation operation = Operation::Copy;
    Split split = Split::None;
    Stage stage = Stage::Layer;
    std::optional<std::int64_t> layer;
    std::optional<std::int64_t> expert;  // index of the expert within its layer
    // number of rows that a split keeps together; for Qkv: the rows of one head
    std::int64_t unit = 1;
    std::int64_t groups = 0;  // for Strands: number of groups of rows
    bool by_group = false;
    std::vector<Strand> strands = {};
    double add = 0;           // native value = HuggingFace value + add
    bool keeps_fp32 = false;  // true: the tensor stays F32 when the model is cast
};

}  // namespace roll::families
