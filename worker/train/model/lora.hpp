// LoRA of a linear layer (common/spec/lora.hpp). Each adapted HuggingFace module of a fused layer
// has its own factors A [r, I] and B [rows, r], as PEFT stores them; linear_qkv has up to three
// pairs. The layer multiplies by joined factors. The joined A stacks the A's of all modules. If a
// module's A is rows [c, c + r) of it, the module's B is columns [c, c + r) of the joined B, at the
// module's output rows. The other elements of the joined B are 0.
//
// With dropout, each module has an input of its own, of which other elements are dropped.
//
// DoRA (arXiv 2402.09353, with PEFT's formula) trains a magnitude m for each output row of a
// module. With c = m / |row of W + s B A|, where the length counts as a constant in backward, the
// module's output is W x + (c - 1) W x' + c s B A x', where x' is x after dropout.
//
// With tensor parallelism, each rank of a column-parallel layer has all of A and a part of B's
// rows. Each rank of a row-parallel layer has a part of A's columns and all of B. The gradient of
// the factor that is whole is summed over the ranks, and so is that of a row-parallel layer's m.
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

// LoRA of one HuggingFace module of a linear layer.
struct LoraPart {
    int a = -1, b = -1;  // indices of A and B in the chunk's parameters
    double scale = 1;
    // The layer's output rows form `groups` equal runs. B's rows are rows [begin, begin + count) of
    // each run.
    std::int64_t groups = 1, begin = 0, count = 0;
    int magnitude = -1;  // index of m; -1: no DoRA
    int site = 0;        // of its dropout: the module's spec::LoraPlace
};

// LoRA of a layer.
struct Adapter {
    std::vector<LoraPart> parts = {};
    Dropout dropout = {};

    bool drops() const { return dropout.probability > 0; }
    bool is_dora() const { return !parts.empty() && parts.front().magnitude >= 0; }
};

// The joined factors of a layer with `outputs` output rows, or their gradients. The factor b_OR is
// multiplied by the modules' scales, and its gradient is not.
struct LoraFactors {
    at::Tensor a_RI, b_OR;
};
LoraFactors joined_factors(const Parameters& parameters, std::span<const LoraPart> parts,
                           std::int64_t outputs);

// Adds the product of the factors with x_MI to y_MO.
void add_lora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& y_MO,
              const at::Tensor& x_MI);

// Adds to dx_MI the part of the input's gradient that flows through the factors.
void add_lora_backward(const Parameters& parameters, const Adapter& adapter,
                       const at::Tensor& dx_MI, const at::Tensor& dy_MO);

// Passes the computations of the factors' gradients to `contribute`.
void owe_lora(const Parameters& parameters, const Adapter& adapter, const at::Tensor& dy_MO,
              const at::Tensor& x_MI, const Contribute& contribute);

// Returns one part for each module in `of` that has an adapter: the positions of its factors and of
// its output rows. `first` is the index of the decoder layer's first parameter in the chunk. `tp`
// is the number of ranks that share the layer.
std::vector<LoraPart> lora_parts(const spec::ModelConfig& config, const LayerPlaces& places,
                                 int first, int tp, std::initializer_list<spec::LoraPlace> of);

}  // namespace roll::train
