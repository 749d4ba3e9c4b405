// The order of a decoder layer's parameters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/spec/train/model.hpp"

namespace roll::train {

// Indices of a layer's parameters, counted from the layer's first parameter, in the order in which
// forward uses them; -1 if the model has no such parameter.
struct LayerPlaces {
    int norm1, qkv, qkv_bias, q_norm, k_norm, out, out_bias, post_norm1;
    int norm2, gate_up, down, post_norm2;
    // the router, and the first expert's gate and up weight; the down weight and the weights of the
    // next experts follow
    int router, experts;
    std::array<int, spec::kLoraPlaces.size()> lora_a, lora_b,
        magnitude;  // indexed by spec::LoraPlace
    int count;      // number of parameters of a layer
};
LayerPlaces layer_places(const spec::ModelConfig& config, std::int64_t layer);

// The places of several layers. `first` has the index of each layer's first parameter and, at the
// end, the index after the last layer's parameters.
struct PlacesOfLayers {
    std::vector<LayerPlaces> places;
    std::vector<int> first;
};
PlacesOfLayers places_of_layers(const spec::ModelConfig& config, std::int64_t begin,
                                std::int64_t end, int first);

}  // namespace roll::train
