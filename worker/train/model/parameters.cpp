#include "worker/train/model/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <fnmatch.h>

#include "worker/families/native_tensor.hpp"
#include "worker/train/model/random.hpp"
#include "worker/train/model/state_memory.hpp"
#include "worker/train/model/tensor_shard.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::train {
namespace {

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";

double norm_start(const spec::ModelConfig& c) { return c.norm_adds_one ? 0 : 1; }

// Appends the LoRA factors of the modules listed in `of`, the parts of the layer `linear`. The
// order is all A, then all B, then, with DoRA, all magnitudes. As in PEFT, A is drawn by Kaiming's
// rule with a = sqrt(5), and B is 0. start_magnitudes() later computes the magnitudes from the
// weights.
void add_lora_factors(std::vector<ParameterSpec>& specs, const spec::ModelConfig& c,
                      std::int64_t layer, const std::string& linear,
                      std::initializer_list<spec::LoraPlace> of) {
    const auto is_here = [&](const spec::LoraModule& module) {
        return module.is_of(layer) && std::ranges::find(of, module.place) != of.end();
    };
    for (const char factor : {'A', 'B'}) {
        for (const spec::LoraModule& module : c.lora.modules) {
            if (!is_here(module)) continue;
            const auto [outputs, inputs] = c.linear_sizes(module.place);
            ParameterSpec& spec = specs.emplace_back();
            spec.name = linear + ".lora_" + factor + "." + name_of(module.place) + ".weight";
            spec.lora = LoraRole::Factor;
            if (factor == 'A') spec.bound = 1 / std::sqrt(static_cast<double>(inputs));
            if (factor == 'B') spec.start = 0;
            spec.sizes = {factor == 'A' ? module.r : outputs, factor == 'A' ? inputs : module.r};
        }
    }
    for (const spec::LoraModule& module : c.lora.modules) {
        if (!c.lora.dora || !is_here(module)) continue;
        ParameterSpec& spec = specs.emplace_back();
        spec.name = linear + ".lora_magnitude." + name_of(module.place) + ".weight";
        spec.lora = LoraRole::Factor;
        spec.sizes = {c.linear_sizes(module.place).first};
        spec.start = 1;
    }
}

bool is_trained_whole(const spec::LoraSpec& lora, const std::string& name) {
    return std::ranges::any_of(spec::kSavedModules, [&](const auto& saved) {
        return saved.second == name &&
               std::ranges::find(lora.modules_to_save, saved.first) != lora.modules_to_save.end();
    });
}

// Freezes the model's own weights, except for the modules that LoRA trains completely.
void freeze_base(std::vector<ParameterSpec>& specs, const spec::LoraSpec& lora) {
    for (ParameterSpec& spec : specs) {
        if (spec.lora == LoraRole::Factor || is_trained_whole(lora, spec.name)) continue;
        spec.frozen = true;
        spec.lora = LoraRole::Base;
    }
}

// Marks the matrices of the decoder layers as packed, before tensor parallelism splits them.
void pack_base(std::vector<ParameterSpec>& specs, const spec::ModelConfig& c) {
    const std::int64_t queries = c.heads / c.kv_heads * c.head_dim;
    for (ParameterSpec& spec : specs) {
        const auto is = [&](const char* suffix) { return spec.name.ends_with(suffix); };
        if (spec.lora != LoraRole::Base || spec.sizes.size() != 2) continue;
        if (is("linear_qkv.weight"))
            spec.fused = {c.kv_heads, {queries, c.head_dim, c.head_dim}};
        else if (is("linear_fc1.weight"))
            spec.fused = {1, {c.intermediate, c.intermediate}};
        else if (is("linear_proj.weight") || is("linear_fc2.weight"))
            spec.fused = {1, {spec.sizes[0]}};
        else
            continue;
        spec.form = {c.lora.base, c.lora.double_quantization, 0, spec.sizes[1]};
    }
}

void add_layer(std::vector<ParameterSpec>& specs, const spec::ModelConfig& c, std::int64_t layer) {
    const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    const std::int64_t qkv = (c.heads + 2 * c.kv_heads) * c.head_dim;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> sizes,
                         double start = -1) {
        specs.push_back({prefix + name, std::move(sizes), 1, start});
    };
    const double one = norm_start(c);
    add("self_attention.linear_qkv.layer_norm_weight", {c.hidden}, one);
    add("self_attention.linear_qkv.weight", {qkv, c.hidden});
    if (c.qkv_bias) add("self_attention.linear_qkv.bias", {qkv}, 0);
    using enum spec::LoraPlace;
    add_lora_factors(specs, c, layer, prefix + "self_attention.linear_qkv", {Q, K, V});
    if (c.qk_norm) add("self_attention.q_layernorm.weight", {c.head_dim}, one);
    if (c.qk_norm) add("self_attention.k_layernorm.weight", {c.head_dim}, one);
    add("self_attention.linear_proj.weight", {c.hidden, c.heads * c.head_dim});
    if (c.out_bias) add("self_attention.linear_proj.bias", {c.hidden}, 0);
    add_lora_factors(specs, c, layer, prefix + "self_attention.linear_proj", {Out});
    if (c.post_norms) add("self_attention.linear_proj.post_layernorm.weight", {c.hidden}, one);
    if (c.experts > 0) {
        add("pre_mlp_layernorm.weight", {c.hidden}, one);
        add("mlp.router.weight", {c.experts, c.hidden});
        for (std::int64_t expert = 0; expert < c.experts; ++expert) {
            const std::string of = "mlp.experts.local_experts." + std::to_string(expert);
            add(of + ".linear_fc1.weight", {2 * c.intermediate, c.hidden});
            add(of + ".linear_fc2.weight", {c.hidden, c.intermediate});
        }
        return;
    }
    add("mlp.linear_fc1.layer_norm_weight", {c.hidden}, one);
    add("mlp.linear_fc1.weight", {2 * c.intermediate, c.hidden});
    add_lora_factors(specs, c, layer, prefix + "mlp.linear_fc1", {Gate, Up});
    add("mlp.linear_fc2.weight", {c.hidden, c.intermediate});
    add_lora_factors(specs, c, layer, prefix + "mlp.linear_fc2", {Down});
    if (c.post_norms) add("mlp.linear_fc2.post_layernorm.weight", {c.hidden}, one);
}

void split(ParameterSpec& spec, const spec::ModelConfig& config, const ChunkSpec& chunk) {
    TensorShard shard = tensor_shard(config, spec.name, spec.sizes, chunk);
    if (!shard.parts.empty()) spec.whole = spec.sizes;
    spec.sizes = std::move(shard.sizes);
    spec.parts = std::move(shard.parts);
    spec.partial = shard.partial;
    if (spec.parts.empty() || !spec.form.is_packed()) return;
    spec.form.first_column = spec.parts.front().whole[1];
    spec.form.columns = spec.parts.front().size[1];
}

// Fills one part of a parameter with random initial values. A value depends on the index of its
// element in the whole tensor.
void draw_part(const at::Tensor& drawn, const ParameterSpec& spec, const layout::Part& part,
               const InitOptions& options) {
    const auto fill = [&](const at::Tensor& values, std::int64_t number) {
        if (spec.bound > 0)
            fill_uniform(values, spec.bound, options.seed, spec.name, number);
        else
            fill_normal(values, options.std, options.seed, spec.name, number);
    };
    const bool is_matrix = spec.sizes.size() == 2;
    const std::int64_t width = is_matrix ? spec.whole[1] : 1;
    const at::Tensor rows = drawn.narrow(0, part.local[0], part.size[0]);
    const std::int64_t first = part.whole[0] * width;
    if (!is_matrix || part.size[1] == width) return fill(rows, first);
    for (std::int64_t row = 0; row < part.size[0]; ++row)
        fill(rows[row].narrow(0, part.local[1], part.size[1]), first + row * width + part.whole[1]);
}

void draw(const at::Tensor& drawn, const ParameterSpec& spec, const InitOptions& options) {
    if (spec.start >= 0) {
        drawn.fill_(spec.start);
    } else if (spec.parts.empty() && spec.bound > 0) {
        fill_uniform(drawn, spec.bound, options.seed, spec.name);
    } else if (spec.parts.empty()) {
        fill_normal(drawn, options.std, options.seed, spec.name);
    } else {
        drawn.zero_();
        for (const layout::Part& part : spec.parts) draw_part(drawn, spec, part, options);
    }
}

// Draw a packed weight whole, because its scales also depend on elements of other ranks.
void draw_packed(const Parameters& p, std::size_t i, const InitOptions& options) {
    ParameterSpec whole = p.specs[i];
    whole.sizes = whole_sizes(whole);
    whole.parts.clear();
    const at::Tensor drawn = at::empty(whole.sizes, main_type(p));
    draw(drawn, whole, options);
    set_packed(p, i, drawn);
}

std::vector<std::int64_t> rows_sizes(const ParameterSpec& spec, std::int64_t rows) {
    std::vector<std::int64_t> sizes = spec.sizes;
    sizes[0] = rows;
    return sizes;
}

// Returns consecutive views of `flat`, one per parameter. The view of parameter i has rows_of(i)
// rows. If rows_of(i) is nullopt, the view is undefined and takes no elements of `flat`.
template <class RowsOf>
std::vector<at::Tensor> views_with(const std::vector<ParameterSpec>& specs, const at::Tensor& flat,
                                   const RowsOf& rows_of) {
    std::vector<at::Tensor> views;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        views.emplace_back();
        const std::optional<std::int64_t> rows = rows_of(i);
        if (!rows) continue;
        const std::vector<std::int64_t> sizes = rows_sizes(specs[i], *rows);
        const std::int64_t size = c10::multiply_integers(sizes);
        views.back() = flat.narrow(0, begin, size).view(sizes);
        begin += size;
    }
    return views;
}

std::vector<at::Tensor> own_views(const Parameters& p, const at::Tensor& flat) {
    return views_with(p.specs, flat, [&](std::size_t i) { return std::optional(p.own[i].count); });
}

// Returns the number of rows of a weight that this rank stores.
std::int64_t stored_rows(const Parameters& p, std::size_t i) {
    return p.is_split[i] ? p.own[i].count : p.specs[i].sizes[0];
}

// Makes the packed weights.
void allocate_packed(Parameters& p) {
    std::int64_t bytes = 0;
    const auto size_of = [&](std::size_t i) {
        return p.specs[i].form.is_packed() ? stored_rows(p, i) * p.specs[i].form.row_bytes() : 0;
    };
    for (std::size_t i = 0; i < p.specs.size(); ++i) bytes += size_of(i);
    if (bytes == 0) return;
    p.flat_packed = lazy_zeros(bytes, p.flat_weight.options().dtype(at::kByte));
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        if (!p.specs[i].form.is_packed()) continue;
        p.weight[i] = p.flat_packed.narrow(0, begin, size_of(i))
                          .view({stored_rows(p, i), p.specs[i].form.row_bytes()});
        begin += size_of(i);
    }
}

// Makes the main weights that are tensors of their own. On a GPU, those of the offloaded parameters
// are outside the device's memory.
void allocate_main(Parameters& p, const InitOptions& options, const at::TensorOptions& kind,
                   Pages pages) {
    const std::size_t outside = options.device.is_cpu() ? 0 : p.offloaded;
    std::int64_t offloaded = 0, size = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        (i < outside ? offloaded : size) +=
            c10::multiply_integers(rows_sizes(p.specs[i], p.own[i].count));
    p.flat_main = lazy_zeros(size, kind, pages);
    if (outside > 0) p.flat_main_offloaded = p.state_memory(offloaded, kind);
    const auto views = [&](const at::Tensor& flat, bool is_outside) {
        return views_with(p.specs, flat, [&](std::size_t i) {
            return (i < outside) == is_outside ? std::optional(p.own[i].count) : std::nullopt;
        });
    };
    p.main = views(p.flat_main, false);
    if (outside == 0) return;
    const std::vector<at::Tensor> others = views(p.flat_main_offloaded, true);
    std::copy_n(others.begin(), outside, p.main.begin());
}

void allocate(Parameters& p, const InitOptions& options) {
    std::int64_t own = 0, trained = 0, stored = 0;
    // `has_gaps`: some parameters are frozen, and their gradients are never used. `has_base`: LoRA
    // has a base, and the base's main weights are never used. Small pages save the memory of both.
    bool has_gaps = false, has_base = false;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const auto size = c10::multiply_integers(rows_sizes(p.specs[i], p.own[i].count));
        own += size;
        trained += p.specs[i].frozen ? 0 : size;
        has_gaps |= p.specs[i].frozen;
        has_base |= p.specs[i].lora == LoraRole::Base;
        if (p.specs[i].form.is_packed()) continue;
        stored += c10::multiply_integers(rows_sizes(p.specs[i], stored_rows(p, i)));
    }
    const Pages main_pages = has_base ? Pages::Small : Pages::Huge;
    const bool narrow = ops::is_narrow(options.dtype);
    const at::TensorOptions kind = at::TensorOptions(options.dtype).device(options.device);
    const at::TensorOptions main = narrow ? kind.dtype(at::kFloat) : kind;
    p.flat_weight = lazy_zeros(stored, kind);
    p.weight = views_with(p.specs, p.flat_weight, [&](std::size_t i) {
        return p.specs[i].form.is_packed() ? std::nullopt : std::optional(stored_rows(p, i));
    });
    allocate_packed(p);
    if (!narrow) {
        p.flat_main = p.flat_weight;
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            p.main.push_back(own_rows(p, i, p.weight[i]));
    } else if (options.device.is_cpu() && options.dtype == at::kBFloat16) {
        p.flat_rest = lazy_zeros(own, kind.dtype(at::kShort), main_pages);
        p.rest = own_views(p, p.flat_rest);
    } else {
        allocate_main(p, options, main, main_pages);
    }
    if (!options.gradients) return;
    if (options.stages_gradients) {
        p.flat_own_grad = lazy_zeros(trained, main);
        p.own_grad = views_with(p.specs, p.flat_own_grad, [&](std::size_t i) {
            return p.specs[i].frozen ? std::nullopt : std::optional(p.own[i].count);
        });
        p.grad.resize(p.specs.size());
        return;
    }
    p.flat_grad = lazy_zeros(numel(p.specs), main, has_gaps ? Pages::Small : Pages::Huge);
    p.grad = views_of(p.specs, p.flat_grad);
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        p.own_grad.push_back(own_rows(p, i, p.grad[i]));
}

}  // namespace

bool matches_any(const std::vector<std::string>& globs, const std::string& name) {
    return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
        return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
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
    if (chunk.post && config.scores)
        specs.push_back({families::kScore, {1, config.hidden}});
    else if (chunk.post && !both_ends)
        specs.push_back(
            {config.tied ? kEmbedding : "output_layer.weight", {config.vocab, config.hidden}});
    if (config.lora.is_set()) freeze_base(specs, config.lora);
    if (config.lora.is_set() && config.lora.base != spec::LoraBase::Full) pack_base(specs, config);
    if (chunk.tp > 1)
        for (ParameterSpec& spec : specs) split(spec, config, chunk);
    return specs;
}

std::vector<at::Tensor> views_of(const std::vector<ParameterSpec>& specs, const at::Tensor& flat) {
    return views_with(specs, flat, [&](std::size_t i) { return std::optional(specs[i].sizes[0]); });
}

bool is_splittable(const ParameterSpec& spec) {
    return spec.sizes.size() > 1 && spec.lora != LoraRole::Factor;
}

std::int64_t numel(const std::vector<ParameterSpec>& specs) {
    std::int64_t size = 0;
    for (const ParameterSpec& spec : specs) size += c10::multiply_integers(spec.sizes);
    return size;
}

std::int64_t trainable_numel(const std::vector<ParameterSpec>& specs) {
    std::int64_t size = 0;
    for (const ParameterSpec& spec : specs)
        if (!spec.frozen) size += c10::multiply_integers(spec.sizes);
    return size;
}

const std::vector<std::int64_t>& whole_sizes(const ParameterSpec& spec) {
    return spec.parts.empty() ? spec.sizes : spec.whole;
}

void copy_to_whole(const ParameterSpec& spec, const at::Tensor& own, const at::Tensor& whole) {
    if (spec.parts.empty()) {
        whole.copy_(own);
        return;
    }
    for (const layout::Part& part : spec.parts)
        part_view(whole, part.whole, part.size).copy_(part_view(own, part.local, part.size));
}

void copy_from_whole(const ParameterSpec& spec, const at::Tensor& whole, const at::Tensor& own) {
    if (spec.parts.empty()) {
        own.copy_(whole);
        return;
    }
    own.zero_();
    for (const layout::Part& part : spec.parts)
        part_view(own, part.local, part.size).copy_(part_view(whole, part.whole, part.size));
}

std::int64_t unpadded_rows(const ParameterSpec& spec) {
    if (spec.parts.empty()) return spec.sizes[0];
    const layout::Part& last = spec.parts.back();
    return last.local[0] + last.size[0];
}

void mark_frozen(std::vector<ParameterSpec>& specs, const std::vector<std::string>& globs) {
    for (ParameterSpec& spec : specs) spec.frozen |= matches_any(globs, spec.name);
}

Parameters make_parameters(std::vector<ParameterSpec> specs, const InitOptions& options) {
    mark_frozen(specs, options.freeze);
    Parameters p;
    p.specs = std::move(specs);
    p.is_shared = options.owners > 1;
    p.state_memory = options.state_memory;
    if (p.state_memory)
        p.offloaded = options.offloaded_count ? options.offloaded_count(p.specs) : p.specs.size();
    for (const ParameterSpec& spec : p.specs) {
        p.own.push_back(layout::own_rows(spec.sizes[0], options.owners, options.owner));
        p.is_split.push_back(options.splits_weights && is_splittable(spec));
    }
    allocate(p, options);
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        // The model's files have no weights for a new adapter or a new score layer.
        const bool is_new =
            p.specs[i].lora == LoraRole::Factor || p.specs[i].name == families::kScore;
        if (!options.draw && !is_new) continue;
        if (p.specs[i].form.is_packed()) {
            draw_packed(p, i, options);
            continue;
        }
        const at::Tensor drawn = main_to_write(p, i);
        draw(drawn, p.specs[i], options);
        set_main(p, i, drawn);
    }
    return p;
}

void set_packed(const Parameters& p, std::size_t i, const at::Tensor& whole_OI) {
    const ParameterSpec& spec = p.specs[i];
    const at::Tensor all = ops::packed(spec.form, whole_OI, spec.fused);
    at::Tensor own = all;
    if (!spec.parts.empty()) {
        own = at::empty({spec.sizes[0], all.size(1)}, all.options());
        for (const layout::Part& part : spec.parts)
            own.narrow(0, part.local[0], part.size[0])
                .copy_(all.narrow(0, part.whole[0], part.size[0]));
    }
    p.weight[i].copy_(p.is_split[i] ? own_rows(p, i, own) : own);
}

at::ScalarType main_type(const Parameters& p) {
    const at::ScalarType type = p.flat_weight.scalar_type();
    return ops::is_narrow(type) ? at::kFloat : type;
}

at::Tensor own_rows(const Parameters& p, std::size_t i, const at::Tensor& tensor) {
    const layout::Rows& own = p.own[i];
    return tensor.size(0) == own.count ? tensor : tensor.narrow(0, own.begin, own.count);
}

at::Tensor grad_like(const Parameters& p, int i) {
    return at::empty(p.specs[i].sizes, p.flat_weight.options().dtype(main_type(p)));
}

}  // namespace roll::train
