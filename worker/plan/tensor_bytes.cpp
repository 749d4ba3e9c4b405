#include "worker/plan/tensor_bytes.hpp"

#include <algorithm>

#include "worker/plan/element_bytes.hpp"
#include "worker/plan/layer_values.hpp"

namespace roll::plan {
namespace {

// Returns the amount of data that recomputation of a layer sends to the tensor-parallel group, as a
// number of tensors with all rows. With sequence parallelism, the first product of a block gathers
// its input, and the second product scatters its output. Each counts as one tensor. Without
// sequence parallelism, the second product's output is all-reduced. It counts as two tensors,
// because a ring all-reduce sends almost twice its bytes.
std::int64_t sent_again(const LayerRecompute& layer, bool sequence, bool post_norms) {
    const std::int64_t gathers = (layer.attention() ? 1 : 0) + (layer.mlp() ? 1 : 0);
    if (!layer.full()) return sequence ? gathers : 0;
    // The last product is repeated only if the next layer or a norm needs its output.
    const std::int64_t outputs = !layer.keeps_output || post_norms ? 2 : 1;
    return sequence ? gathers + outputs : 2 * outputs;
}

}  // namespace

std::int64_t tensor_bytes(const spec::ModelConfig& m, const spec::TrainSpec& spec,
                          const StagePart& part, const Recomputed& recompute) {
    // Each layer sums four tensors over the group: the outputs of two linear layers in forward, and
    // the gradients of two inputs in backward. A ring all-reduce sends almost twice the bytes of
    // its tensor. With sequence parallelism, a reduce-scatter and an all-gather replace the
    // all-reduce. Together they send as many bytes, but backward also gathers two inputs once more.
    const bool splits = spec.parallel.sequence;
    constexpr std::int64_t kForward = 4;
    std::int64_t sent = (splits ? 10 : 8) * (part.layers - part.below) + kForward * part.below;
    // The embedding's output and the gradient of the output layer's input are summed, too. With
    // sequence parallelism, half of these bytes are sent in forward and half in backward.
    if (part.first) sent += splits && part.lowest >= 0 ? 1 : 2;
    if (part.last) sent += part.lowest <= m.layers ? 2 : splits ? 1 : 0;
    for (const LayerRecompute& layer : recompute)
        sent += sent_again(layer, spec.parallel.sequence, m.post_norms);
    const std::int64_t tokens = rank_tokens(spec) * spec.microbatches();
    const std::int64_t bytes = sent * tokens * m.hidden * element_bytes(spec.precision);
    return bytes * (part.tp - 1) / part.tp;
}

std::int64_t context_bytes(const spec::ModelConfig& m, const spec::TrainSpec& spec,
                           const StagePart& part, const Recomputed& recompute) {
    // A rank sends its keys and values in forward, and again in backward. Then it sends the
    // gradients of the other ranks' keys and values, in a type of at least 32 bits. Recomputation
    // of attention sends keys and values once more.
    const std::int64_t above = part.layers - part.below;  // number of layers with a backward
    const auto again = std::ranges::count_if(recompute, &LayerRecompute::attention);
    const std::int64_t each = element_bytes(spec.precision) * (part.layers + above + again) +
                              main_bytes(spec.precision) * above;
    return (spec.parallel.cp - 1) * rank_tokens(spec) * spec.microbatches() * 2 * m.kv_heads /
           part.tp * m.head_dim * each;
}

}  // namespace roll::plan
