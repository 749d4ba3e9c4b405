#include "worker/train/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/random.hpp"
#include "worker/train/ops/rope.hpp"

namespace roll::train {
namespace {

// Cached keys and values of one sequence. S is the maximum number of positions; other letters are
// as in ops/rope.hpp.
struct LayerCache {
    at::Tensor k_GSD;
    at::Tensor v_GSD;
};

class Decoder {
  public:
    Decoder(Chunk& model, std::int64_t positions)
        : config_(model.config()),
          model_(model),
          table_(ops::rope_table(positions, config_.head_dim, config_.rope_theta,
                                 config_.rope_scaling, main_type(model.parameters()))) {
        const auto like = model.parameters().flat_weight.options();
        table_ = {table_.cos_TE.to(like.device()), table_.sin_TE.to(like.device())};
        const std::int64_t sizes_GSD[] = {config_.kv_heads, positions, config_.head_dim};
        for (std::int64_t i = 0; i < config_.layers; ++i)
            caches_.push_back({at::empty(sizes_GSD, like), at::empty(sizes_GSD, like)});
    }

    // Appends `tokens` to the sequence. Returns the logits for the token that follows them.
    at::Tensor take(const std::vector<std::int64_t>& tokens) {
        const at::Device device = model_.parameters().flat_weight.device();
        at::Tensor x_MC = model_.embedded(at::tensor(tokens, at::kLong).to(device));
        for (std::size_t i = 0; i < caches_.size(); ++i) x_MC = layer(i, x_MC);
        position_ += x_MC.size(0);
        ops::RmsNormSaved dropped;
        return ops::logits(model_.normed(x_MC.slice(0, -1), dropped), model_.output())[0];
    }

    std::int64_t position() const { return position_; }

  private:
    at::Tensor layer(std::size_t index, const at::Tensor& x_MC) {
        const std::int64_t rows = x_MC.size(0);
        const ops::RopeTable table{table_.cos_TE.narrow(0, position_, rows),
                                   table_.sin_TE.narrow(0, position_, rows)};
        const PlacesOfLayers& all = model_.places();
        Layer layer{config_,
                    model_.parameters(),
                    all.places[index],
                    table,
                    static_cast<std::int64_t>(index),
                    all.first[index]};
        layer.lengths = &lengths_;
        LayerSaved dropped;
        const ops::Heads heads = layer.project(x_MC, rows, dropped);
        return layer.finish(x_MC, attention(caches_[index], heads, layer.rule()), dropped);
    }

    // Returns the attention output o_MA of the new positions. Each new position attends to all
    // cached positions, and to the new positions up to itself.
    at::Tensor attention(const LayerCache& cache, const ops::Heads& heads,
                         const ops::AttentionRule& rule) const {
        const std::int64_t groups = config_.kv_heads, dim = config_.head_dim;
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

    const spec::ModelConfig& config_;
    Chunk& model_;
    ops::RopeTable table_;
    std::vector<LayerCache> caches_;
    std::int64_t position_ = 0;
    RowLengths lengths_{};  // row lengths of the weights for DoRA; the weights do not change
};

// Returns a copy of `share_V` that keeps the fewest most likely tokens whose probabilities sum to
// at least top_p. The other tokens have probability 0.
at::Tensor likeliest(const at::Tensor& share_V, double top_p) {
    auto [sorted_V, token_V] = share_V.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
    const at::Tensor before_V = sorted_V.cumsum(0) - sorted_V;
    sorted_V.slice(0, 1).masked_fill_(before_V.slice(0, 1).ge(top_p), 0);
    return at::zeros_like(share_V).scatter_(0, token_V, sorted_V);
}

std::int64_t choose(at::Tensor logits_V, const GenerateOptions& options, std::size_t index) {
    if (options.ids > 0) logits_V = logits_V.slice(0, 0, options.ids);
    if (options.temperature <= 0) return logits_V.argmax().item<std::int64_t>();
    at::Tensor share_V = (logits_V.to(at::kDouble) / options.temperature).softmax(0);
    if (options.top_p < 1) share_V = likeliest(share_V, options.top_p);
    share_V = share_V.cumsum(0);
    const double mark = uniform(options.seed, "generate", index) * share_V[-1].item<double>();
    const std::int64_t token = share_V.le(mark).sum().item<std::int64_t>();
    return std::min(token, share_V.numel() - 1);
}

}  // namespace

std::vector<std::int64_t> generate(Chunk& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
    const c10::InferenceMode no_autograd;
    ROLL_CHECK(!prompt.empty() && model.part().pre && model.part().post);
    const std::int64_t room = std::max<std::int64_t>(1, model.config().positions_max - 1);
    if (std::ssize(prompt) > room) prompt.erase(prompt.begin(), prompt.end() - room);
    const std::int64_t most = model.config().positions_max;
    const std::int64_t positions =
        std::min(most, std::ssize(prompt) + std::min(most, options.max_tokens));
    // A longer sequence may use other rope angles. Then the keys that were cached while the
    // sequence was short are invalid.
    const std::int64_t same = model.config().rope_scaling.same_up_to();
    const bool crosses = std::ssize(prompt) <= same && same < positions;
    std::optional<Decoder> decoder(std::in_place, model, crosses ? same : positions);
    std::vector<std::int64_t> tokens, next = prompt;
    while (std::ssize(tokens) < options.max_tokens) {
        const std::int64_t end = decoder->position() + std::ssize(next);
        if (end > positions) break;
        if (crosses && end == same + 1) {
            decoder.emplace(model, positions);
            next = prompt;
            next.insert(next.end(), tokens.begin(), tokens.end());
        }
        const std::int64_t token = choose(decoder->take(next), options, tokens.size());
        next = {token};
        const auto& stops = options.stop_tokens;
        if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
        tokens.push_back(token);
    }
    return tokens;
}

}  // namespace roll::train
