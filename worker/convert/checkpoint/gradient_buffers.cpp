#include "worker/convert/checkpoint/gradient_buffers.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace roll::convert {
namespace {

// Megatron aligns each parameter of a bucket to a multiple of this number of elements.
constexpr std::int64_t kAlignment = 64;
constexpr std::string_view kDecoder = "decoder.layers.";
constexpr std::string_view kEmbedding = "embedding.word_embeddings.weight";
constexpr std::string_view kOutput = "output_layer.weight";

// The endings of the names of a layer's parameters, in the order in which Megatron's modules have
// the parameters. The first and the ninth belong to norms that only modules without
// TransformerEngine have.
constexpr std::array<std::string_view, 14> kOfLayer{"input_layernorm.weight",
                                                    "self_attention.linear_proj.weight",
                                                    "self_attention.linear_proj.bias",
                                                    "self_attention.linear_qkv.layer_norm_weight",
                                                    "self_attention.linear_qkv.weight",
                                                    "self_attention.linear_qkv.bias",
                                                    "self_attention.q_layernorm.weight",
                                                    "self_attention.k_layernorm.weight",
                                                    "pre_mlp_layernorm.weight",
                                                    "mlp.linear_fc1.layer_norm_weight",
                                                    "mlp.linear_fc1.weight",
                                                    "mlp.linear_fc1.bias",
                                                    "mlp.linear_fc2.weight",
                                                    "mlp.linear_fc2.bias"};
constexpr std::array<std::string_view, 3> kAround{kEmbedding, "decoder.final_layernorm.weight",
                                                  kOutput};

// A parameter's place in the order of the modules. The first number tells the part of the model: 0
// before, 1 in, and 2 or 3 after the layers. The others are the number of the layer and the place
// in the layer.
using Order = std::tuple<std::size_t, int, std::size_t>;

// Returns a parameter's place in the order of the modules; nullopt if it is unknown. `name` is the
// parameter's name in a rank's file.
std::optional<Order> order_of(const std::string& name) {
    for (std::size_t i = 0; i < kAround.size(); ++i)
        if (name == kAround[i]) return Order{i == 0 ? 0 : i + 1, 0, 0};
    if (!name.starts_with(kDecoder)) return std::nullopt;
    const std::size_t dot = name.find('.', kDecoder.size());
    if (dot == std::string::npos) return std::nullopt;
    const std::string_view ending = std::string_view(name).substr(dot + 1);
    const auto found = std::ranges::find(kOfLayer, ending);
    if (found == kOfLayer.end()) return std::nullopt;
    return Order{1, std::stoi(name.substr(kDecoder.size())),
                 static_cast<std::size_t>(found - kOfLayer.begin())};
}

std::string bucket_key(const GradientBuffer& buffer, const BucketRule& rule, std::size_t bucket) {
    return kBucketKeys + ("dp_group_idx_" + std::to_string(buffer.group)) + ".gbuf_idx_" +
           std::to_string(buffer.number) + ".dtype_(torch." + tensor::torch_name_of(rule.weights) +
           ", torch." + tensor::torch_name_of(rule.gradients) + ").bucket_idx_" +
           std::to_string(bucket);
}

// Elements [begin, end) of a bucket. They are a parameter, or a gap if `parameter` is null.
struct Part {
    const Stored* parameter = nullptr;
    std::int64_t begin = 0, end = 0;
};
using Bucket = std::vector<Part>;

// Cuts a buffer into buckets, as Megatron does. Megatron puts a parameter for which `is_alone` is
// true into a bucket of its own. A bucket is full when it has `full` elements; if `full` is 0, a
// bucket is never full.
template <class IsAlone>
std::vector<Bucket> cut_buffer(const GradientBuffer& buffer, std::int64_t full, IsAlone is_alone) {
    std::vector<Bucket> buckets(1);
    for (const Stored* one : buffer.parameters) {
        std::int64_t at = buckets.back().empty() ? 0 : buckets.back().back().end;
        // The gap before a parameter belongs to the bucket, even if the parameter does not.
        if (at < aligned(at)) buckets.back().push_back({nullptr, at, aligned(at)});
        if (is_alone(*one) && at > 0) buckets.emplace_back();
        at = buckets.back().empty() ? 0 : aligned(at);
        buckets.back().push_back({one, at, at + tensor::volume(one->shape)});
        const bool is_full = full > 0 && buckets.back().back().end >= full;
        if (is_alone(*one) || is_full) buckets.emplace_back();
    }
    if (buckets.back().empty()) buckets.pop_back();
    return buckets;
}

}  // namespace

std::int64_t aligned(std::int64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

Result<std::vector<GradientBuffer>> gradient_buffers(const std::vector<Stored>& ranks,
                                                     const formats::McaLayout& layout) {
    std::vector<GradientBuffer> buffers;
    std::map<std::pair<std::string, std::string>, std::size_t> of_chunk;
    for (int pp = 0; pp < layout.pp; ++pp)
        for (int tp = 0; tp < layout.tp; ++tp)
            for (int chunk = 0; chunk < layout.vpp; ++chunk) {
                const std::string file = formats::mca_rank_file(layout, {.tp = tp, .pp = pp});
                of_chunk[{file, formats::mca_chunk_key(layout, chunk)}] = buffers.size();
                buffers.push_back({tp + pp * layout.tp,
                                   chunk,
                                   "chunk " + std::to_string(chunk) + " of " + file,
                                   {}});
            }
    for (const Stored& one : ranks) {
        // Megatron allocates no output layer on the stage that has the tied embedding.
        if (one.optional) continue;
        if (!order_of(one.name))
            return fail(ErrorCode::InvalidArgument,
                        "Roll does not know the place of " + one.name +
                            " in Megatron's gradient buffers; --optimizer-kind dp_reshardable "
                            "requires the place of every tensor",
                        "use the kind fully_reshardable (in Megatron: "
                        "dist_ckpt_optim_fully_reshardable)");
        const auto chunk = of_chunk.find({one.file, one.section});
        if (chunk != of_chunk.end()) buffers[chunk->second].parameters.push_back(&one);
    }
    for (GradientBuffer& buffer : buffers)
        std::ranges::sort(buffer.parameters, std::greater(),
                          [](const Stored* one) { return *order_of(one->name); });
    return buffers;
}

Result<BucketLayout> bucket_layout(const std::vector<Stored>& ranks,
                                   const formats::McaLayout& layout, bool is_tied,
                                   const BucketRule& rule, const std::string& file) {
    ROLL_TRY(const auto buffers, gradient_buffers(ranks, layout));
    BucketLayout result;
    result.sizes.weights = rule.weights;
    result.sizes.gradients = rule.gradients;
    // Each of the two copies of a tied embedding has a bucket of its own. The ranks of the first
    // stage and of the last stage then cut the copies in the same way.
    const auto is_alone = [&](const Stored& one) {
        return is_tied && layout.pp > 1 && (one.name == kEmbedding || one.name == kOutput);
    };
    for (const GradientBuffer& buffer : buffers) {
        const bool is_first = buffer.group < layout.tp && buffer.number == 0;
        const auto buckets = cut_buffer(buffer, is_first ? rule.size : 0, is_alone);
        std::vector<std::int64_t>& sizes =
            result.sizes.elements[buffer.group].emplace_back(buckets.size());
        for (std::size_t i = 0; i < buckets.size(); ++i) {
            sizes[i] = buckets[i].back().end;
            for (const Part& part : buckets[i]) {
                Stored stored;
                if (part.parameter != nullptr) stored = *part.parameter;
                if (part.parameter == nullptr) stored.shape = {part.end - part.begin};
                stored.file = file;
                stored.section.clear();
                stored.name = bucket_key(buffer, rule, i);
                stored.flat = true;
                stored.whole = {sizes[i]};
                stored.origin = {part.begin};
                result.tensors.push_back(std::move(stored));
            }
        }
    }
    return result;
}

}  // namespace roll::convert
