#include "worker/plan/recompute.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace roll::plan {

using spec::Recompute;

bool LayerRecompute::attention() const {
    return kind == Recompute::Attention || kind == Recompute::AttentionMlp || full();
}

bool LayerRecompute::mlp() const {
    return kind == Recompute::Mlp || kind == Recompute::AttentionMlp || full();
}

void set_recomputed(Recomputed& all, ChunkLayers chunk, Recompute kind, std::int64_t count,
                    std::int64_t unit, Recompute other) {
    const auto [begin, end] = chunk;
    const std::int64_t stop = std::min(begin + count, end);
    for (std::int64_t layer = begin; layer < end; ++layer) {
        LayerRecompute& one = all[static_cast<std::size_t>(layer)];
        one = {layer < stop ? kind : other};
        if (!one.full()) continue;
        const std::int64_t place = (layer - begin) % unit;
        one.keeps_input = place == 0;
        one.keeps_output = place + 1 == unit || layer + 1 == end || layer + 1 == stop;
    }
}

Recomputed recomputed_of(const spec::ParallelSpec& parallel,
                         const std::vector<ChunkLayers>& chunks) {
    if (parallel.recompute == Recompute::None || chunks.empty()) return {};
    Recomputed all(static_cast<std::size_t>(chunks.back().second));
    const bool is_block = parallel.recompute == Recompute::Full &&
                          parallel.recompute_method == spec::RecomputeMethod::Block;
    for (const ChunkLayers& chunk : chunks) {
        const std::int64_t layers = chunk.second - chunk.first;
        set_recomputed(all, chunk, parallel.recompute,
                       is_block ? parallel.recompute_layers : layers,
                       is_block ? 1 : parallel.recompute_layers);
    }
    return all;
}

std::string recomputed_text(const Recomputed& all) {
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
        while (end < all.size() && all[end].kind == all[begin].kind) ++end;
        if (!all[begin].any()) continue;
        std::size_t unit = 1;
        while (begin + unit < end && !all[begin + unit].keeps_input) ++unit;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                            end - begin == 1 ? fmt::format("layer {}", begin)
                                             : fmt::format("layers {} to {}", begin, end - 1),
                            spec::name_of(all[begin].kind));
        if (unit > 1) text += fmt::format(" in units of {}", unit);
    }
    return text.empty() ? "nothing" : text;
}

}  // namespace roll::plan
