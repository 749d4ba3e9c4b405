// LoRA of a linear layer (common/spec/lora.hpp). Each adapted HuggingFace module of a fused layer
// has its own factors A [r, I] and B [rows, r], as PEFT stores them; linear_qkv has up to three
// pairs. Products use the joined factors of the whole layer: A's rows one below the other, and B's
// blocks at their output rows and at the columns of their A, with zeros elsewhere.
//
// With tensor parallelism each rank has A whole and a part of B's rows in a layer that is split by
// columns, and a part of A's columns and B whole in a layer that is split by rows. The gradient of
// the whole factor is a sum over the ranks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "worker/train/model/layer_places.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// LoRA of one HuggingFace module of a linear layer.
struct LoraPart {
    int a = -1, b = -1;  // indices of A and B in the chunk's parameters
    double scale = 1;
    // B's rows are the output rows [begin, begin + count) of each of `groups` equal runs of rows.
    std::int64_t groups = 1, begin = 0, count = 0;
};

// The joined factors of a layer with `outputs` output rows; b is multiplied by the scales. Also
// holds the gradients of the joined factors; then b is not multiplied.
struct LoraFactors {
    at::Tensor a_RI, b_OR;
};
LoraFactors joined_factors(const Parameters& parameters, std::span<const LoraPart> parts,
                           std::int64_t outputs);

// Adds the product of the factors with x_MI to y_MO.
void add_lora(const Parameters& parameters, std::span<const LoraPart> parts, const at::Tensor& y_MO,
              const at::Tensor& x_MI);

// Adds the gradient of the input, by way of the factors, to dx_MI.
void add_lora_backward(const Parameters& parameters, std::span<const LoraPart> parts,
                       const at::Tensor& dx_MI, const at::Tensor& dy_MO);

// Passes the computations of the factors' gradients to `contribute`.
void owe_lora(const Parameters& parameters, std::span<const LoraPart> parts,
              const at::Tensor& dy_MO, const at::Tensor& x_MI, const Contribute& contribute);

// Returns the places of the factors of a layer's modules `of` and of the output rows of each.
// `first` is the index of the layer's first parameter; `tp` is the number of ranks that share it.
std::vector<LoraPart> lora_parts(const spec::ModelConfig& config, const LayerPlaces& places,
                                 int first, int tp, std::initializer_list<spec::LoraPlace> of);

}  // namespace roll::train
