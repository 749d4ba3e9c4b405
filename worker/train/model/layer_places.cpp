#include "worker/train/model/layer_places.hpp"

#include <algorithm>
#include <initializer_list>

namespace roll::train {
namespace {

bool has_lora(const spec::ModelConfig& c, std::int64_t layer, spec::LoraPlace place) {
    return std::ranges::any_of(c.lora.modules, [&](const spec::LoraModule& module) {
        return module.place == place && module.is_of(layer);
    });
}

}  // namespace

LayerPlaces layer_places(const spec::ModelConfig& c, std::int64_t layer) {
    LayerPlaces places{};
    int next = 0;
    const auto take = [&](bool has) { return has ? next++ : -1; };
    const auto take_lora = [&](std::initializer_list<spec::LoraPlace> of) {
        for (auto* factors : {&places.lora_a, &places.lora_b, &places.magnitude}) {
            const bool has = factors != &places.magnitude || c.lora.dora;
            for (const spec::LoraPlace place : of)
                (*factors)[static_cast<std::size_t>(place)] =
                    take(has && has_lora(c, layer, place));
        }
    };
    using enum spec::LoraPlace;
    places.norm1 = take(true);
    places.qkv = take(true);
    places.qkv_bias = take(c.qkv_bias);
    take_lora({Q, K, V});
    places.q_norm = take(c.qk_norm);
    places.k_norm = take(c.qk_norm);
    places.out = take(true);
    places.out_bias = take(c.out_bias);
    take_lora({Out});
    places.post_norm1 = take(c.post_norms);
    places.norm2 = take(true);
    const bool is_dense = c.experts == 0;
    places.router = take(!is_dense);
    places.experts = is_dense ? -1 : next;
    if (!is_dense) next += static_cast<int>(2 * c.experts);
    places.gate_up = take(is_dense);
    take_lora({Gate, Up});
    places.down = take(is_dense);
    take_lora({Down});
    places.post_norm2 = take(c.post_norms);
    places.count = next;
    return places;
}

PlacesOfLayers places_of_layers(const spec::ModelConfig& config, std::int64_t begin,
                                std::int64_t end, int first) {
    PlacesOfLayers all{{}, {first}};
    for (std::int64_t layer = begin; layer < end; ++layer) {
        all.places.push_back(layer_places(config, layer));
        all.first.push_back(all.first.back() + all.places.back().count);
    }
    return all;
}

}  // namespace roll::train
