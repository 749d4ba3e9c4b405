// Which values of which layers backward computes again, so that forward need not save them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/spec/parallel.hpp"

namespace roll::plan {

struct LayerRecompute {
    spec::Recompute kind = spec::Recompute::None;  // not Auto
    // False in a unit of several layers, except at its ends: the layer's input is computed again by
    // the layer before it, and its output is saved for no other layer.
    bool keeps_input = true, keeps_output = true;

    bool attention() const;  // computes queries, keys, values and attention again
    bool mlp() const;        // computes the output of the gate and up products again
    bool full() const { return kind == spec::Recompute::Full; }
    bool any() const { return kind != spec::Recompute::None; }
    friend bool operator==(const LayerRecompute&, const LayerRecompute&) = default;
};

// One entry per layer; empty if no layer computes anything again.
using Recomputed = std::vector<LayerRecompute>;

// Returns e.g. "layers 0 to 5 full, layers 6 to 11 attention"; "nothing" if no layer computes
// anything again.
std::string recomputed_text(const Recomputed& all);

// The layers of a chunk, [begin, end).
using ChunkLayers = std::pair<std::int64_t, std::int64_t>;

// Writes to `all` what the layers of a chunk compute again: the first `count` of them `kind`, the
// others `other`. Layers of kind Full form units of `unit` layers; the last unit may be smaller.
void set_recomputed(Recomputed& all, ChunkLayers chunk, spec::Recompute kind, std::int64_t count,
                    std::int64_t unit = 1, spec::Recompute other = spec::Recompute::None);

// Returns what each layer of the model computes again if `parallel.recompute` is not Auto. `chunks`
// lists the layers of all chunks in order.
Recomputed recomputed_of(const spec::ParallelSpec& parallel,
                         const std::vector<ChunkLayers>& chunks);

}  // namespace roll::plan
