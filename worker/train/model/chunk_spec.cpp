#include "worker/train/model/chunk_spec.hpp"

#include "worker/layout/stages.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

StageSplit stage_split(const spec::ParallelSpec& parallel) {
    return {parallel.pp,
            parallel.vpp,
            parallel.first_layers,
            parallel.last_layers,
            parallel.account_for_embedding,
            parallel.account_for_loss,
            parallel.pipeline_layout};
}

std::vector<ChunkSpec> stage_chunks(const spec::ModelConfig& config, const StageSplit& split) {
    formats::McaLayout layout;
    layout.pp = split.pp;
    layout.vpp = split.vpp;
    layout.first_layers = split.first_layers;
    layout.last_layers = split.last_layers;
    layout.account_for_embedding = split.account_for_embedding;
    layout.account_for_loss = split.account_for_loss;
    layout.pipeline = split.layout;
    const auto ranges = need(layout::split_layers(config.layers, layout));
    std::vector<ChunkSpec> chunks;
    for (int i = 0; i < split.pp * split.vpp; ++i) {
        const layout::LayerRange& range =
            ranges[static_cast<std::size_t>(i % split.pp)][static_cast<std::size_t>(i / split.pp)];
        chunks.push_back({range.begin, range.end, i == 0, i + 1 == split.pp * split.vpp});
    }
    return chunks;
}

}  // namespace roll::train
