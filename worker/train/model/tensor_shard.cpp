#include "worker/train/model/tensor_shard.hpp"

#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

using families::NativeTensor;
using families::Operation;
using families::Split;

// Returns the description of a parameter that worker/layout needs to compute the parts.
NativeTensor native_of(const spec::ModelConfig& c, const std::string& name,
                       const std::vector<std::int64_t>& sizes) {
    NativeTensor tensor;
    tensor.name = name;
    tensor.shape = {sizes.begin(), sizes.end()};
    const auto source = [&](const char* part, std::int64_t rows) {
        tensor::Shape shape = tensor.shape;
        shape[0] = rows;
        tensor.sources.push_back({part, std::move(shape)});
    };
    const auto is = [&](const char* suffix) { return name.ends_with(suffix); };
    if (is("linear_qkv.weight") || is("linear_qkv.bias")) {
        tensor.operation = Operation::Qkv;
        tensor.split = Split::Column;
        tensor.unit = c.head_dim;
        source("q", c.heads * c.head_dim);
        source("k", c.kv_heads * c.head_dim);
        source("v", c.kv_heads * c.head_dim);
        return tensor;
    }
    if (is("linear_fc1.weight")) {
        tensor.operation = Operation::GateUp;
        tensor.split = Split::Column;
        source("gate", c.intermediate);
        source("up", c.intermediate);
        return tensor;
    }
    if (name.find(".lora_") != std::string::npos) {
        const bool is_a = name.find(".lora_A.") != std::string::npos;
        // true: a magnitude, which is split like B's rows
        const bool is_vector = sizes.size() == 1;
        const bool by_columns = name.find("linear_qkv.") != std::string::npos ||
                                name.find("linear_fc1.") != std::string::npos;
        if (is_a != by_columns && (by_columns || !is_vector))
            tensor.split = by_columns ? Split::Column : Split::Row;
        source("whole", sizes[0]);
        return tensor;
    }
    if (is("linear_proj.weight") || is("linear_fc2.weight")) tensor.split = Split::Row;
    if (is("word_embeddings.weight") || is("output_layer.weight")) tensor.split = Split::Column;
    source("whole", sizes[0]);
    return tensor;
}

}  // namespace

TensorShard tensor_shard(const spec::ModelConfig& config, const std::string& name,
                         const std::vector<std::int64_t>& sizes, const ChunkSpec& chunk) {
    const NativeTensor tensor = native_of(config, name, sizes);
    const auto is = [&](const char* suffix) { return name.ends_with(suffix); };
    const bool of_heads = is("q_layernorm.weight") || is("k_layernorm.weight");
    // each rank has only a part of the outputs of the experts, and so of the weights' gradients
    const bool of_router = is("mlp.router.weight");
    // With sequence parallelism, linear_proj.bias is not partial, because each rank gets the
    // gradients of all rows.
    const bool of_lora = name.find(".lora_") != std::string::npos;
    // The score layer's weight is not partial either: each rank computes its gradient from all
    // rows.
    const bool partial = of_heads || of_lora || of_router ||
                         (chunk.sequence && !is("linear_proj.bias") && name != families::kScore);
    if (tensor.split == Split::None) return {sizes, {}, partial};
    const bool vocabulary = is("word_embeddings.weight") || is("output_layer.weight");
    const std::int64_t padded = vocabulary ? vocabulary_rows(config, chunk.tp) * chunk.tp : 0;
    auto slice = layout::slice_of(tensor, chunk.tp, chunk.tp_rank, padded);
    ROLL_CHECK(slice.has_value());
    return {{slice->shape.begin(), slice->shape.end()}, std::move(slice->parts)};
}

at::Tensor part_view(at::Tensor tensor, const layout::Shape& begin, const layout::Shape& size) {
    for (std::size_t i = 0; i < begin.size(); ++i)
        tensor = tensor.narrow(static_cast<std::int64_t>(i), begin[i], size[i]);
    return tensor;
}

std::int64_t vocabulary_rows(const spec::ModelConfig& config, int tp) {
    return (config.vocab + tp - 1) / tp;
}

}  // namespace roll::train
