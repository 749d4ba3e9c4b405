#include "worker/train/model/parameters.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <fnmatch.h>

#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/model/random.hpp"

namespace roll::train {
namespace {

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";

double norm_start(const spec::ModelConfig& c) { return c.norm_adds_one ? 0 : 1; }

void add_layer(std::vector<ParameterSpec>& specs, const spec::ModelConfig& c, std::int64_t layer) {
    const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    const std::int64_t qkv = (c.heads + 2 * c.kv_heads) * c.head_dim;
    const auto add = [&](const char* name, std::vector<std::int64_t> sizes, double start = -1) {
        specs.push_back({prefix + name, std::move(sizes), 1, start});
    };
    const double one = norm_start(c);
    add("self_attention.linear_qkv.layer_norm_weight", {c.hidden}, one);
    add("self_attention.linear_qkv.weight", {qkv, c.hidden});
    if (c.qkv_bias) add("self_attention.linear_qkv.bias", {qkv}, 0);
    if (c.qk_norm) add("self_attention.q_layernorm.weight", {c.head_dim}, one);
    if (c.qk_norm) add("self_attention.k_layernorm.weight", {c.head_dim}, one);
    add("self_attention.linear_proj.weight", {c.hidden, c.heads * c.head_dim});
    if (c.out_bias) add("self_attention.linear_proj.bias", {c.hidden}, 0);
    if (c.post_norms) add("self_attention.linear_proj.post_layernorm.weight", {c.hidden}, one);
    add("mlp.linear_fc1.layer_norm_weight", {c.hidden}, one);
    add("mlp.linear_fc1.weight", {2 * c.intermediate, c.hidden});
    add("mlp.linear_fc2.weight", {c.hidden, c.intermediate});
    if (c.post_norms) add("mlp.linear_fc2.post_layernorm.weight", {c.hidden}, one);
}

// By parameter, one after the other; not defined where `has` says no.
template <class Has>
std::vector<at::Tensor> views_of(const std::vector<ParameterSpec>& specs, const at::Tensor& flat,
                                 const Has& has) {
    std::vector<at::Tensor> views;
    std::int64_t begin = 0;
    for (const ParameterSpec& spec : specs) {
        views.emplace_back();
        if (!has(spec)) continue;
        const std::int64_t size = c10::multiply_integers(spec.sizes);
        views.back() = flat.narrow(0, begin, size).view(spec.sizes);
        begin += size;
    }
    return views;
}

}  // namespace

bool matches_any(const std::vector<std::string>& globs, const std::string& name) {
    return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
        return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
}

LayerPlaces layer_places(const spec::ModelConfig& c) {
    LayerPlaces places{};
    int next = 0;
    const auto take = [&](bool has) { return has ? next++ : -1; };
    places.norm1 = take(true);
    places.qkv = take(true);
    places.qkv_bias = take(c.qkv_bias);
    places.q_norm = take(c.qk_norm);
    places.k_norm = take(c.qk_norm);
    places.out = take(true);
    places.out_bias = take(c.out_bias);
    places.post_norm1 = take(c.post_norms);
    places.norm2 = take(true);
    places.gate_up = take(true);
    places.down = take(true);
    places.post_norm2 = take(c.post_norms);
    places.count = next;
    return places;
}

std::vector<ParameterSpec> parameter_specs(const spec::ModelConfig& config,
                                           const ChunkSpec& chunk) {
    const bool both_ends = config.tied && chunk.pre && chunk.post;
    std::vector<ParameterSpec> specs;
    if (chunk.pre) specs.push_back({kEmbedding, {config.vocab, config.hidden}, both_ends ? 2 : 1});
    for (std::int64_t layer = chunk.layer_begin; layer < chunk.layer_end; ++layer)
        add_layer(specs, config, layer);
    if (chunk.post)
        specs.push_back({"decoder.final_layernorm.weight", {config.hidden}, 1, norm_start(config)});
    if (chunk.post && !both_ends)
        specs.push_back(
            {config.tied ? kEmbedding : "output_layer.weight", {config.vocab, config.hidden}});
    return specs;
}

std::vector<at::Tensor> views_like(const Parameters& parameters, const at::Tensor& flat) {
    return views_of(parameters.specs, flat, [](const ParameterSpec&) { return true; });
}

std::vector<at::Tensor> trainable_views(const Parameters& parameters, const at::Tensor& flat) {
    return views_of(parameters.specs, flat, [](const ParameterSpec& spec) { return !spec.frozen; });
}

std::int64_t trainable_numel(const Parameters& parameters) {
    std::int64_t size = 0;
    for (const ParameterSpec& spec : parameters.specs)
        if (!spec.frozen) size += c10::multiply_integers(spec.sizes);
    return size;
}

Parameters make_parameters(std::vector<ParameterSpec> specs, const InitOptions& options) {
    std::int64_t total = 0;
    for (ParameterSpec& spec : specs) {
        total += c10::multiply_integers(spec.sizes);
        spec.frozen = matches_any(options.freeze, spec.name);
    }
    Parameters p;
    p.specs = std::move(specs);
    const bool narrow = options.dtype == at::kBFloat16;
    const at::TensorOptions kind = at::TensorOptions(options.dtype).device(options.device);
    p.flat_main = lazy_zeros(total, narrow ? kind.dtype(at::kFloat) : kind);
    p.flat_weight = narrow ? lazy_zeros(total, kind) : p.flat_main;
    p.weight = views_like(p, p.flat_weight);
    p.main = views_like(p, p.flat_main);
    if (options.gradients) {
        p.flat_grad = lazy_zeros(total, p.flat_main.options());
        p.grad = views_like(p, p.flat_grad);
    }
    if (!options.draw) return p;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        if (p.specs[i].start >= 0) {
            p.main[i].fill_(p.specs[i].start);
        } else {
            const at::Tensor drawn = p.main[i].is_cpu()
                                         ? p.main[i]
                                         : at::empty(p.specs[i].sizes, p.flat_main.scalar_type());
            fill_normal(drawn, options.std, options.seed, p.specs[i].name);
            if (!p.main[i].is_cpu()) p.main[i].copy_(drawn);
        }
    }
    round_weights(p);
    return p;
}

void round_weights(const Parameters& p) {
    if (!p.flat_weight.is_same(p.flat_main)) p.flat_weight.copy_(p.flat_main);
}

}  // namespace roll::train
