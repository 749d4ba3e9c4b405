#include "worker/plan/layer_values.hpp"

namespace roll::plan {
namespace {

// Returns the number of elements per token that the experts of a layer save: the gate and up
// products, the router's probabilities, and four numbers of each choice, three of them of 8 bytes.
std::int64_t saved_of_experts(const spec::ModelConfig& m) {
    return m.experts_per_token * (2 * m.intermediate + 7) + m.experts;
}

}  // namespace

std::int64_t rank_tokens(const spec::TrainSpec& spec) {
    const std::int64_t cp = spec.parallel.cp, length = spec.seq_length;
    const std::int64_t own = cp == 1 ? length : 2 * ((length + 2 * cp - 1) / (2 * cp));
    return spec.micro_batch_size * spec.sequences_per_sample() * own;
}

std::vector<std::int64_t> layer_saved(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                      const LayerRecompute& again) {
    const std::int64_t attention = rows.inner * m.heads * m.head_dim;
    const std::int64_t keys = rows.inner * m.kv_heads * m.head_dim;
    const std::int64_t hidden = rows.outer * m.hidden;
    std::vector<std::int64_t> saved;
    if (!segments && !again.attention()) saved = {attention, keys, keys};
    if (!again.attention()) saved.push_back(attention);
    if (!again.full()) saved.push_back(hidden);
    if (m.experts > 0) return saved;
    if (!again.mlp()) saved.push_back(rows.inner * 2 * m.intermediate);
    const bool is_norms = m.post_norms && again.full();
    if (again.keeps_output && !is_norms) saved.push_back(hidden);
    return saved;
}

std::int64_t layer_saved_elsewhere(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                   const LayerRecompute& again) {
    const std::int64_t qkv = rows.inner * (m.heads + 2 * m.kv_heads) * m.head_dim;
    const std::int64_t copies = (segments ? qkv : 0) + (m.qk_norm ? qkv : 0);
    const std::int64_t hidden = rows.outer * m.hidden;
    const std::int64_t norms = again.full() ? (again.keeps_output ? hidden : 0) : 2 * hidden;
    const std::int64_t experts = m.experts == 0
                                     ? 0
                                     : (again.mlp() ? 0 : rows.inner * saved_of_experts(m)) +
                                           (again.keeps_output ? hidden : 0);
    return (again.attention() ? 0 : copies) + (m.post_norms ? norms : 0) + experts;
}

std::int64_t layer_held(const spec::ModelConfig& m, const Rows& rows, bool segments,
                        const LayerRecompute& again) {
    std::int64_t held = layer_saved_elsewhere(m, rows, segments, again);
    for (const std::int64_t size : layer_saved(m, rows, segments, again)) held += size;
    return held;
}

LayerRecompute layer_of(const Recomputed& all, std::int64_t layer) {
    return all.empty() ? LayerRecompute{} : all[static_cast<std::size_t>(layer)];
}

std::vector<PartValues> backward_extra(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                       const Recomputed& all,
                                       const std::vector<std::int64_t>& outside,
                                       std::int64_t workspace, bool offloads) {
    std::vector<PartValues> extra(outside.size());
    std::int64_t held = 0;
    const auto restored = [&](std::int64_t layer) {
        return layer_held(m, rows, segments, {}) -
               (offloads ? 0 : layer_held(m, rows, segments, layer_of(all, layer)));
    };
    for (auto layer = std::ssize(outside) - 1; layer >= 0; --layer) {
        const LayerRecompute& again = layer_of(all, layer);
        if (again.keeps_output) {  // `layer` is the last layer of its recomputation unit
            std::int64_t first = layer;
            while (!layer_of(all, first).keeps_input) --first;
            for (std::int64_t i = first; i <= layer; ++i) held += restored(i);
        }
        PartValues& of_layer = extra[static_cast<std::size_t>(layer)];
        of_layer.during = held + workspace;
        held -= outside[static_cast<std::size_t>(layer)] + restored(layer);
        of_layer.after = held;
    }
    return extra;
}

std::int64_t experts_workspace(const spec::ModelConfig& m) {
    const std::int64_t of_expert = 7 * m.intermediate + 2 * m.hidden;
    return (m.experts_per_token + 5) * m.hidden + 2 * m.experts_per_token * of_expert / m.experts;
}

std::int64_t layer_owed(const spec::ModelConfig& m, const Rows& rows) {
    const std::int64_t attention = m.heads * m.head_dim, keys = m.kv_heads * m.head_dim;
    const std::int64_t block = 2 * m.hidden + 3 * m.intermediate;
    const std::int64_t router = m.experts > 0 ? m.hidden + m.experts : 0;
    return rows.inner * (2 * (attention + keys + m.hidden) + m.blocks_per_token() * block + router);
}

}  // namespace roll::plan
