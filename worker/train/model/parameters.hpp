// A chunk's parameters: flat tensors of weights and gradients, and views by parameter.
//
// `weight` is what the model computes with and `main` what the optimizer moves: the same tensors,
// but for bfloat16, where main (and grad) are float32 and weight is main rounded. On a CPU main is
// then no tensor: weight and `rest` are its halves (simd/halves.hpp), so that both take what main
// alone would.
//
// Names are Megatron's with the layer's number in the whole model, the same in every layout, and so
// are the shapes: linear_qkv holds for each key group its query heads' rows, then the key's, then
// the value's, biases likewise; linear_fc1 the gate's rows, then up's. A checkpoint is these
// tensors as they lie. The order is that of use in forward, so that gradients are complete from the
// back to the front.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/ops/sum.hpp"

namespace roll::train {

struct ParameterSpec {
    std::string name;
    std::vector<std::int64_t> sizes;
    int uses = 1;         // contributions to its gradient in one microbatch
    double start = -1;    // what it is filled with at first; -1: drawn
    bool frozen = false;  // keeps its values; its gradient stays 0
};

struct Parameters {
    std::vector<ParameterSpec> specs;
    at::Tensor flat_weight;
    at::Tensor flat_main;  // undefined where there is a rest
    at::Tensor flat_rest;
    at::Tensor flat_grad;
    std::vector<at::Tensor> weight;
    std::vector<at::Tensor> main;
    std::vector<at::Tensor> rest;
    std::vector<at::Tensor> grad;
};

at::ScalarType main_type(const Parameters& parameters);  // of main weights and gradients

// All main weights, as a flat copy on the CPU in pages of its own.
at::Tensor main_copy(const Parameters& parameters);

// A parameter's main weight on the CPU for the caller to write into, and how what was written
// becomes the weight. It is the main weight itself where that is whole and on the CPU.
at::Tensor main_to_write(const Parameters& parameters, std::size_t i);
void set_main(const Parameters& parameters, std::size_t i, const at::Tensor& written);

// The same of a parameter's elements from `begin` on alone, where there is a rest. Several threads
// may set parts of one parameter at once.
void set_halves(const Parameters& parameters, std::size_t i, std::int64_t begin,
                std::span<const float> written);

// Adds a contribution to a parameter's gradient. The first of a step replaces what was there.
using AddGrad = std::function<void(ops::Sum)>;

// A contribution to this parameter's gradient has been added.
using GradReady = std::function<void(int parameter)>;

// The places of a layer's parameters, counted from its first, in the order of their use in forward.
// -1: a model of this config has none.
struct LayerPlaces {
    int norm1, qkv, qkv_bias, q_norm, k_norm, out, out_bias, post_norm1;
    int norm2, gate_up, down, post_norm2;
    int count;  // of all of them
};
LayerPlaces layer_places(const spec::ModelConfig& config);

// Views of a flat tensor of the parameters' size, by parameter.
std::vector<at::Tensor> views_like(const Parameters& parameters, const at::Tensor& flat);

// The same of those alone that train: of how many elements, and views of a flat tensor of so many,
// by parameter; a frozen one's is not defined.
std::int64_t trainable_numel(const Parameters& parameters);
std::vector<at::Tensor> trainable_views(const Parameters& parameters, const at::Tensor& flat);

std::vector<ParameterSpec> parameter_specs(const spec::ModelConfig& config, const ChunkSpec& chunk);

struct InitOptions {
    std::uint64_t seed = 1;
    double std = 0.02;                  // of matrices; norms begin as no change, biases as 0
    at::ScalarType dtype = at::kFloat;  // of the weights: float, double or bfloat16
    at::Device device = at::kCPU;
    bool draw = true;                      // else the weights are left for the caller to fill
    bool gradients = true;                 // else there are none, and nothing can be trained
    std::vector<std::string> freeze = {};  // globs of names of parameters that keep their values
};

// Whether a name matches one of the globs: fnmatch(3), in which * stands for dots too.
bool matches_any(const std::vector<std::string>& globs, const std::string& name);

// Weights drawn from the seed, the parameter's name and the element alone: the same whatever the
// layout and the number of threads.
Parameters make_parameters(std::vector<ParameterSpec> specs, const InitOptions& options);

}  // namespace roll::train
