// Determines, for each layer, which values backward recomputes. Forward need not save these values.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/spec/train/parallel.hpp"

namespace roll::plan {

struct LayerRecompute {
    spec::Recompute kind = spec::Recompute::None;  // never Auto
    // Both are true, except in a unit of several layers that are recomputed together. Forward saves
    // only the input of the unit's first layer and the output of its last layer. keeps_input is
    // false for the layers after the first, and keeps_output is false for the layers before the
    // last.
    bool keeps_input = true, keeps_output = true;

    bool attention() const;  // returns true if queries, keys, values and attention are recomputed
    bool mlp() const;        // returns true if the output of the gate and up products is recomputed
    bool full() const { return kind == spec::Recompute::Full; }
    bool any() const { return kind != spec::Recompute::None; }
    friend bool operator==(const LayerRecompute&, const LayerRecompute&) = default;
};

// One entry per layer; empty if no layer is recomputed.
using Recomputed = std::vector<LayerRecompute>;

// Returns, for example, "layers 0 to 5 full, layers 6 to 11 attention". Returns "nothing" if no
// layer is recomputed.
std::string recomputed_text(const Recomputed& all);

// The range [begin, end) of a chunk's layers.
using ChunkLayers = std::pair<std::int64_t, std::int64_t>;

// Sets the recomputation of a chunk's layers in `all`. The first `count` layers get `kind`, and the
// other layers get `other`. Layers of kind Full form units of `unit` layers, which are recomputed
// together. The last unit may be smaller.
void set_recomputed(Recomputed& all, ChunkLayers chunk, spec::Recompute kind, std::int64_t count,
                    std::int64_t unit = 1, spec::Recompute other = spec::Recompute::None);

// Returns the recomputation of each layer of the model if `parallel.recompute` is not Auto.
// `chunks` lists the layers of all chunks in order.
Recomputed recomputed_of(const spec::ParallelSpec& parallel,
                         const std::vector<ChunkLayers>& chunks);

}  // namespace roll::plan
