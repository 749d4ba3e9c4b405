#include "worker/plan/tensor_bytes.hpp"

#include "worker/plan/element_bytes.hpp"

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
    // sequence parallelism, half of these bytes are sent in forward and half in backward. The
    // second half is not sent if the embedding or the output layer's input has no backward.
    if (part.first) sent += splits && part.lowest >= 0 ? 1 : 2;
    if (part.last) sent += part.lowest <= m.layers ? 2 : splits ? 1 : 0;
    for (const LayerRecompute& layer : recompute)
        sent += sent_again(layer, spec.parallel.sequence, m.post_norms);
    const std::int64_t tokens = microbatch_tokens(spec) * spec.microbatches();
    const std::int64_t bytes = sent * tokens * m.hidden * element_bytes(spec.precision);
    return bytes * (part.tp - 1) / part.tp;
}

}  // namespace roll::plan
