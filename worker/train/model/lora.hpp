// LoRA of a linear layer (common/spec/train/lora.hpp). Each adapted HuggingFace module of a fused
// layer has its own factors A [r, I] and B [rows, r], as in PEFT's files; linear_qkv has up to
// three pairs. The layer multiplies by joined factors. The joined A stacks the A's of all modules.
// Suppose a module's A is in rows [c, c + r) of the joined A. Then the module's B is in columns [c,
// c + r) of the joined B, in the rows of the module's output. The other elements of the joined B
// are 0.
//
// With dropout, each module has its own dropout mask for the input.
//
// DoRA (arXiv 2402.09353, with PEFT's formula) trains a magnitude m for each output row of a
// module. The module's output is W x + (c - 1) W x' + c s B A x', where x' is x after dropout and c
// = m / |row of W + s B A|. Backward treats the length |row| as a constant.
//
// With tensor parallelism, each rank of a column-parallel layer has all of A and some rows of B.
// Each rank of a row-parallel layer has some columns of A and all of B. The gradient of the factor
// that each rank has whole is summed over the ranks. In a row-parallel layer, the gradient of m is
// summed, too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/dropout.hpp"
#include "worker/train/model/layer_places.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// The LoRA adapter of one HuggingFace module of a linear layer.
struct LoraPart {
    int a = -1, b = -1;  // indices of A and B in the chunk's parameters
    double scale = 1;
    // The layer's output rows form `groups` groups of equal length. The module's output is rows
    // [begin, begin + count) of each group, and B has only these rows.
    std::int64_t groups = 1, begin = 0, count = 0;
    int magnitude = -1;  // index of m; -1: no DoRA
    int site = 0;        // number of the part's dropout site: the module's spec::LoraPlace
};

// The LoRA adapters of all modules of a layer.
struct Adapter {
    std::vector<LoraPart> parts = {};
    Dropout dropout = {};

    bool drops() const { return dropout.probability > 0; }
    bool is_dora() const { return !parts.empty() && parts.front().magnitude >= 0; }
};

// The joined factors of a layer with `outputs` output rows, or their gradients. As a factor, b_OR
// includes the modules' scales; as a gradient, b_OR is the gradient of B without the scale.
struct LoraFactors {
    at::Tensor a_RI, b_OR;
};
LoraFactors joined_factors(const Parameters& parameters, std::span<const LoraPart> parts,
                           std::int64_t outputs);

// Adds s B A x to y_MO for all modules of the adapter (with dropout, s B A x').
void add_lora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& y_MO,
              const at::Tensor& x_MI);

// Adds to dx_MI the part of the input's gradient that flows through the factors.
void add_lora_backward(const Parameters& parameters, const Adapter& adapter,
                       const at::Tensor& dx_MI, const at::Tensor& dy_MO);

// Passes to `contribute` the functions that compute the gradients of the factors.
void owe_lora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& dy_MO,
              const at::Tensor& x_MI, const Contribute& contribute);

// Returns the adapter of each module in `of` that has one. The modules in `of` form one linear
// layer. `layer`: index of the decoder layer. `first`: index of the layer's first parameter in the
// chunk. `tp`: number of ranks that share the layer.
std::vector<LoraPart> lora_parts(const spec::ModelConfig& config, const LayerPlaces& places,
                                 std::int64_t layer, int first, int tp,
                                 std::initializer_list<spec::LoraPlace> of);

}  // namespace roll::train
