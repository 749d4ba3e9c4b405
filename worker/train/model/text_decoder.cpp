#include "worker/train/model/text_decoder.hpp"

#include <cmath>

#include <ATen/ATen.h>

namespace roll::train {

TextDecoder::TextDecoder(const TextModel& model, std::int64_t positions) : model_(model) {
    for (const TextPart& part : model_.parts) {
        PartCache& cache = caches_.emplace_back();
        if (part.chunk == nullptr) continue;
        const spec::ModelConfig& config = part.chunk->config();
        const ChunkSpec& layers = part.chunk->part();
        const Parameters& parameters = part.chunk->parameters();
        const auto like = parameters.flat_weight.options();
        const ops::RopeTable table = ops::rope_table(positions, config.head_dim, config.rope_theta,
                                                     config.rope_scaling, main_type(parameters));
        cache.table = {table.cos_TE.to(like.device()), table.sin_TE.to(like.device())};
        const std::int64_t sizes_GSD[] = {config.kv_heads / layers.tp, positions, config.head_dim};
        for (std::int64_t i = layers.layer_begin; i < layers.layer_end; ++i)
            cache.layers.push_back({at::empty(sizes_GSD, like), at::empty(sizes_GSD, like)});
    }
}

at::Tensor TextDecoder::take(const std::vector<std::int64_t>& tokens) {
    at::Tensor x_MC;
    for (std::size_t i = 0; i < model_.parts.size(); ++i) {
        const auto& [chunk, stage] = model_.parts[i];
        if (chunk == nullptr) continue;
        const Tag tag{Site::Activation, static_cast<int>(chunk->part().layer_begin)};
        if (i > 0 && model_.parts[i - 1].stage != stage) {
            x_MC = at::empty({std::ssize(tokens), chunk->config().hidden},
                             chunk->parameters().flat_weight.options());
            model_.pp->wait(model_.pp->receive(x_MC, model_.parts[i - 1].stage, tag));
        }
        x_MC = run_part(i, x_MC, tokens);
        if (i + 1 == model_.parts.size() || model_.parts[i + 1].stage == stage) continue;
        model_.pp->send(x_MC, model_.parts[i + 1].stage,
                        {Site::Activation, static_cast<int>(chunk->part().layer_end)});
    }
    position_ += std::ssize(tokens);
    const Chunk* const last = model_.parts.back().chunk;
    return last == nullptr ? at::Tensor() : last->next_logits(x_MC.slice(0, -1))[0];
}

at::Tensor TextDecoder::run_part(std::size_t number, const at::Tensor& in_MC,
                                 const std::vector<std::int64_t>& tokens) {
    const Chunk& chunk = *model_.parts[number].chunk;
    PartCache& cache = caches_[number];
    const std::int64_t rows = std::ssize(tokens);
    const ops::RopeTable table{cache.table.cos_TE.narrow(0, position_, rows),
                               cache.table.sin_TE.narrow(0, position_, rows)};
    at::Tensor x_MC = chunk.part().pre ? chunk.embed(at::tensor(tokens, at::kLong)) : in_MC;
    for (std::size_t i = 0; i < cache.layers.size(); ++i)
        x_MC = chunk.run_layer(static_cast<std::int64_t>(i), x_MC, table, cache.lengths,
                               [&](const ops::Heads& heads, const ops::AttentionRule& rule) {
                                   return attention(cache.layers[i], heads, rule);
                               });
    return x_MC;
}

// Returns the attention output o_MA of the new positions. Each new position attends to all cached
// positions, and to the new positions up to itself.
at::Tensor TextDecoder::attention(const LayerCache& cache, const ops::Heads& heads,
                                  const ops::AttentionRule& rule) const {
    const std::int64_t groups = cache.k_GSD.size(0), dim = cache.k_GSD.size(2);
    const std::int64_t rows = heads.q_BHTD.size(2), all = position_ + rows;
    cache.k_GSD.narrow(1, position_, rows).copy_(heads.k_BGTD[0]);
    cache.v_GSD.narrow(1, position_, rows).copy_(heads.v_BGTD[0]);
    const at::Tensor q_GQTD = heads.q_BHTD.reshape({groups, -1, rows, dim});
    const at::Tensor k_G1DS = cache.k_GSD.narrow(1, 0, all).transpose(1, 2).unsqueeze(1);
    const double scale = rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(dim));
    at::Tensor score_GQTS = at::matmul(q_GQTD, k_G1DS) * scale;
    if (rule.soft_cap > 0) score_GQTS.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
    at::Tensor hidden_TS =
        at::ones({rows, all}, score_GQTS.options().dtype(at::kBool)).triu(position_ + 1);
    if (rule.window > 0)
        hidden_TS.logical_or_(at::ones_like(hidden_TS).tril(position_ - rule.window));
    score_GQTS.masked_fill_(hidden_TS, -INFINITY);
    const at::Tensor o_GQTD =
        at::matmul(score_GQTS.softmax(-1), cache.v_GSD.narrow(1, 0, all).unsqueeze(1));
    return o_GQTD.permute({2, 0, 1, 3}).reshape({rows, -1});
}

}  // namespace roll::train
