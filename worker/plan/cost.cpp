#include "worker/plan/cost.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/processor.hpp"
#include "worker/plan/element_bytes.hpp"
#include "worker/plan/layer_values.hpp"
#include "worker/plan/spare_room.hpp"

namespace roll::plan {
namespace {

constexpr std::int64_t kLogitsBlockBytes = 64 << 20;
// The allocator maps a block of this size or more on its own, and takes smaller blocks from the
// heap, which never shrinks (train/process/memory.cpp). A mapped block therefore adds to the peak
// memory, even if the heap has enough free space for it.
constexpr std::int64_t kMappedBytes = 32 << 20;

// Returns true if oneDNN multiplies bfloat16 matrices on this processor without converting them to
// float32. Its kernels for bfloat16 need more memory.
bool has_bf16_kernels() {
    static const bool has = [] {
        const Result<Processor> found = find_processor();
        return found && found->bfloat16() != Processor::Bfloat16::Widened;
    }();
    return has;
}

// Returns the memory of the program with an almost empty model, in bytes. memory_test.py measured
// the values. Several ranks also need memory for the connections between them.
std::int64_t program_bytes(const spec::TrainSpec& spec) {
    const spec::ParallelSpec& p = spec.parallel;
    const std::int64_t connections = p.replicas() * p.tp * p.pp > 1 ? 3 << 20 : 0;
    switch (spec.precision) {
        case spec::Precision::Fp64: return connections + (146 << 20);
        case spec::Precision::Bf16: return connections + ((has_bf16_kernels() ? 150 : 140) << 20);
        case spec::Precision::Fp16: return connections + (140 << 20);
        default: return connections + (141 << 20);
    }
}

// Returns the number of elements of a LoRA module in `layers` layers of the model. `elements` is
// the number of elements in one layer that has the module. A module may exist in a single layer
// only. This function does not know whether that layer is one of the `layers` layers, so it returns
// the mean for this number of layers.
std::int64_t share_of(const spec::ModelConfig& m, const spec::LoraModule& module,
                      std::int64_t elements, std::int64_t layers) {
    return module.layer < 0 ? elements * layers : elements * layers / m.layers;
}

// Returns the number of elements in the LoRA factors of `layers` layers.
std::int64_t lora_factors(const spec::ModelConfig& m, std::int64_t layers) {
    std::int64_t count = 0;
    for (const spec::LoraModule& module : m.lora.modules) {
        const auto [outputs, inputs] = m.linear_sizes(module.place);
        count += share_of(m, module, module.r * (outputs + inputs), layers);
    }
    return count;
}

// Returns the number of elements in DoRA's magnitudes of `layers` layers.
std::int64_t lora_magnitudes(const spec::ModelConfig& m, std::int64_t layers) {
    std::int64_t count = 0;
    for (const spec::LoraModule& module : m.lora.modules)
        if (m.lora.dora) count += share_of(m, module, m.linear_sizes(module.place).first, layers);
    return count;
}

// Returns the number of weights with which a token is multiplied in `layers` layers, including LoRA
// factors. A layer has four products: qkv, attention output, gate and up, and down. With experts, a
// layer also has the router's product, and the last two products of each of the token's experts.
std::int64_t products_of(const spec::ModelConfig& m, std::int64_t layers) {
    const std::int64_t attention = m.heads * m.head_dim, keys = m.kv_heads * m.head_dim;
    return layers * (m.hidden * (attention + 2 * keys) + attention * m.hidden +
                     3 * m.hidden * m.intermediate * m.blocks_per_token() + m.experts * m.hidden) +
           lora_factors(m, layers);
}

std::int64_t parameters_of(const spec::ModelConfig& m, std::int64_t layers) {
    const std::int64_t norms = m.hidden * (m.post_norms ? 4 : 2) + (m.qk_norm ? 2 * m.head_dim : 0);
    const std::int64_t biases =
        (m.qkv_bias ? (m.heads + 2 * m.kv_heads) * m.head_dim : 0) + (m.out_bias ? m.hidden : 0);
    return products_of(m, layers) + lora_magnitudes(m, layers) +
           layers * (norms + biases + m.unused_per_token());
}

Rows rows_of(const spec::TrainSpec& spec, int tp) {
    const std::int64_t tokens = rank_tokens(spec);
    const bool splits = spec.parallel.sequence && tp > 1;
    return {tokens, splits ? (tokens + tp - 1) / tp : tokens};
}

// Returns true if attention saves its own copies of the heads, because it runs piece by piece.
bool has_pieces(const spec::TrainSpec& spec) {
    return spec.data.documents_apart || spec.parallel.cp > 1;
}

// Returns the bytes of the temporary values of attention's backward with context parallelism. The
// most is needed either while the attention of a sequence is computed (the keys and values of all
// ranks as they are gathered and in order, their gradients, and the gradients of one sequence's
// keys and values for each query head), or while the gradients are sent (the keys and values, and
// three copies of their gradients).
std::int64_t context_workspace(const spec::ModelConfig& m, const spec::TrainSpec& spec) {
    if (spec.parallel.cp == 1) return 0;
    const std::int64_t element = element_bytes(spec.precision), main = main_bytes(spec.precision);
    const std::int64_t keys = 2 * m.kv_heads * m.head_dim, queries = 2 * m.heads * m.head_dim;
    const std::int64_t tokens = microbatch_tokens(spec);
    return std::max(tokens * keys * (2 * element + main) + spec.seq_length * queries * main,
                    tokens * keys * (element + 3 * main));
}

// Returns the number of temporary elements of a layer's backward.
std::int64_t layer_workspace(const spec::ModelConfig& m, const spec::TrainSpec& spec) {
    // ATen's gelu allocates temporary tensors of its input's size. If documents are kept apart, q,
    // k and v are copied, too.
    const std::int64_t steps = m.activation == spec::Activation::GeluTanh ? 6 : 4;
    const std::int64_t qkv =
        spec.data.documents_apart ? (m.heads + 2 * m.kv_heads) * m.head_dim : 0;
    const std::int64_t block =
        m.experts > 0 ? experts_workspace(m) : 2 * m.hidden + steps * m.intermediate;
    return rank_tokens(spec) * (block + qkv) +
           context_workspace(m, spec) / element_bytes(spec.precision);
}

// Returns true if the stage saves its input for backward.
bool saves_input(const StagePart& part, const spec::ModelConfig& m) {
    return part.below < part.layers || part.lowest < part.first_layer ||
           (part.last && part.lowest <= m.layers);
}

// Returns the number of attention scores of one sequence. Each token attends to itself and to the
// earlier tokens in the window.
double positions_seen(double length, double window) {
    if (window == 0 || window >= length) return length * (length + 1) / 2;
    return window * length - window * (window - 1) / 2;
}

// FLOPs of the parts of one layer's forward, for one micro-batch on one rank.
struct LayerFlops {
    double qkv = 0, scores = 0, out = 0, gate_up = 0, down = 0;

    // Returns the FLOPs of the parts that backward recomputes. With full recomputation, the product
    // with the down projection is recomputed only if its output is needed. The layer's post-norm
    // needs it; so does the next layer, if both layers are in the same recomputation unit.
    double again(const LayerRecompute& kind, bool post_norms) const {
        const double attention = kind.attention() ? qkv + scores : 0;
        const double whole = kind.full() ? out : 0;
        const bool is_last = kind.full() && (post_norms || !kind.keeps_output);
        return attention + whole + (kind.mlp() ? gate_up : 0) + (is_last ? down : 0);
    }
};

// Returns the number of outputs of the output layer, or of the score that takes its place.
std::int64_t head_outputs(const spec::ModelConfig& m) { return m.scores ? 1 : m.vocab; }

// Returns `m` with the sizes on one rank, if `tp` ranks share each layer.
spec::ModelConfig part_of(spec::ModelConfig m, int tp) {
    m.heads /= tp;
    m.kv_heads /= tp;
    m.intermediate /= tp;
    m.vocab = (m.vocab + tp - 1) / tp;
    return m;
}

LayerFlops layer_flops(const spec::ModelConfig& m, const spec::TrainSpec& spec,
                       std::int64_t layer) {
    const auto tokens = static_cast<double>(rank_tokens(spec));
    const auto product = [&](std::int64_t outputs, std::int64_t inputs) {
        return 2 * tokens * static_cast<double>(outputs * inputs);
    };
    const std::int64_t attention = m.heads * m.head_dim, keys = m.kv_heads * m.head_dim;
    return {.qkv = product(attention + 2 * keys, m.hidden),
            .scores = 4.0 * static_cast<double>(attention) * tokens /
                      static_cast<double>(spec.seq_length) *
                      positions_seen(static_cast<double>(spec.seq_length),
                                     static_cast<double>(m.window_of(layer))),
            .out = product(m.hidden, attention),
            .gate_up = product(2 * m.intermediate * m.blocks_per_token() + m.experts, m.hidden),
            .down = product(m.hidden, m.intermediate * m.blocks_per_token())};
}

// Returns the number of weights that one replica copies for a checkpoint of the stage: all of the
// stage's weights, or the first stage's adapter in a LoRA job.
std::int64_t written_weights(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                             const StagePart& part, std::int64_t count) {
    if (!model.lora.is_set()) return count;
    // 2: the adapter and its average
    const std::int64_t copies = spec.optimizer.ema.decay > 0 ? 2 : 1;
    return part.first ? copies * (parameter_count(model) - part.frozen_of_model) : 0;
}

// Returns the bytes of the copies that the loss makes of `logits` logits. The loss makes copies if
// the vocabulary is split, or with label smoothing or z-loss. The copies are the logits in float32
// (with 16-bit weights only), their exponentials in float32, and the exponentials in float64. With
// fp64, only the exponentials are copied.
std::int64_t loss_copies(const spec::TrainSpec& spec, std::int64_t logits) {
    if (spec.parallel.tp == 1 && spec.loss.label_smoothing == 0 && spec.loss.z_loss == 0) return 0;
    const std::int64_t element = element_bytes(spec.precision);
    return logits * (element == 8 ? 8 : (element < 4 ? 4 : 0) + 4 + 8);
}

// The activations and temporary values of a step on one rank, in bytes.
struct StepValues {
    std::int64_t activations = 0;  // activations of all micro-batches that are in memory at once
    std::int64_t workspace = 0;    // largest size of the temporary values
    std::int64_t of_chunk = 0;     // activations of one micro-batch in one chunk
    // activations of all micro-batches that are outside the device's memory
    std::int64_t offloaded = 0;
    // all values of one micro-batch in one chunk, in the order of backward (exchange_peak.hpp)
    std::vector<PartValues> parts = {};
};

// Returns the moment of a step at which the rank needs the most memory. Backward of the step's last
// micro-batch goes from the last chunk to the first. During the backward of a chunk, the rank holds
// the activations of the lower chunks, and the buffers of the higher chunks, whose gradients are
// still being summed over the replicas. With ZeRO-2, the gradients are summed after each
// micro-batch, so the rank also holds buffers of the previous micro-batch in all chunks.
Moment step_moment(const Held& held, const StepValues& values, const StagePart& part, bool tied,
                   bool several, std::int64_t main) {
    Moment most{values.activations + values.workspace, 0};
    const Owned owned = held.owned.value_or(Owned{});
    const bool continued = owned.gradients && several;
    for (const auto& buckets : owned.buckets)
        most.exchange += continued ? pending_at_end(buckets) : 0;
    std::int64_t pending = most.exchange;
    for (std::ptrdiff_t i = std::ssize(owned.buckets) - 1; i >= 0; --i) {
        const std::vector<ExchangeBucket>& buckets = owned.buckets[static_cast<std::size_t>(i)];
        const std::int64_t own = pending_at_end(buckets);
        const bool joins = tied && part.first && part.last && part.chunks == 1;
        Moment one = exchange_peak(buckets, {owned.gradients, continued, joins}, values.parts);
        one.values += i * values.of_chunk;
        one.exchange += continued ? pending - own : pending;
        if (!continued) pending += own;
        most = std::ranges::max({most, one}, {}, &Moment::total);
    }
    const Moment update{held.update_bytes, held.matrices * main};
    return std::ranges::max({most, update}, {}, &Moment::total);
}

// Returns the sizes of the activations and temporary values of the part. `m`: the model, with the
// sizes that one rank has. `staged`: the rank stores gradients only for its own elements.
StepValues step_values(const spec::ModelConfig& m, const spec::TrainSpec& spec,
                       const StagePart& part, const Held& held, bool staged) {
    const std::int64_t element = element_bytes(spec.precision), main = main_bytes(spec.precision);
    const std::int64_t tokens = rank_tokens(spec);
    // Only the first micro-batch of a step finds the gradients' memory unused. Therefore,
    // activations are stored in that memory only if a step has one micro-batch. They are not stored
    // there if parameters are frozen, because the gradients of frozen parameters must stay 0. If
    // activations are offloaded, only the loss uses that memory.
    const bool offloads = spec.offloads_activations;
    const bool spare =
        !staged && spec.microbatches() == 1 && held.frozen == 0 && !held.on_gpu && part.chunks == 1;
    const std::int64_t layers = part.layers / part.chunks;  // layers per chunk
    const std::int64_t embedding = part.first ? m.vocab * m.hidden * main : 0;
    SpareRoom room(embedding, parameters_of(m, 1) * main, spare ? layers : 0);
    const Rows rows = rows_of(spec, part.tp);
    const bool segments = has_pieces(spec);
    StepValues values;
    const std::int64_t input = rows.outer * m.hidden * element;
    values.of_chunk = saves_input(part, m) ? input : 0;
    std::vector<std::int64_t> outside;  // for each layer: elements outside the gradients' memory
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        if (layer < part.below) {
            outside.push_back(0);
            continue;
        }
        const LayerRecompute again = layer_of(held.recompute, layer);
        std::int64_t& own = outside.emplace_back(layer_saved_elsewhere(m, rows, segments, again));
        for (const std::int64_t size : layer_saved(m, rows, segments, again))
            if (offloads || !spare || !room.take(layer, size * element)) own += size;
        values.of_chunk += own * element;
        if (offloads) own = 0;
    }
    if (offloads) values.offloaded = held.live * std::exchange(values.of_chunk, 0);
    values.activations = held.live * values.of_chunk;
    if (held.activations && !spare) values.activations = *held.activations;
    const std::int64_t logits = tokens * head_outputs(m) * element;
    const std::int64_t block = logits / ((logits + kLogitsBlockBytes - 1) / kLogitsBlockBytes);
    const bool fits = spare && room.take(layers, block).has_value();
    const std::int64_t head =
        (fits ? 0 : block) + loss_copies(spec, block / element) + 2 * tokens * m.hidden * element;
    const std::int64_t loss = part.last ? head : 0;
    const bool is_mapped = part.last && !fits && !held.on_gpu && block >= kMappedBytes;
    const std::int64_t layer = layer_workspace(m, spec), unpacked = largest_unpacked(m) * element;
    values.parts.push_back({values.of_chunk + loss, values.of_chunk});
    std::int64_t most = 0;
    const std::vector<PartValues> extra =
        backward_extra(m, rows, segments, held.recompute, outside, layer, offloads);
    for (auto i = std::ssize(extra) - 1; i >= part.below; --i) {
        const auto [during, after] = extra[static_cast<std::size_t>(i)];
        // A GPU receives the values of the layers below while it computes this layer's backward.
        const std::int64_t ahead =
            offloads && held.on_gpu && i > part.below
                ? layer_held(m, rows, segments, layer_of(held.recompute, i - 1))
                : 0;
        most = std::max(most, (during + ahead) * element);
        values.parts.push_back({values.of_chunk + (during + ahead) * element + unpacked,
                                values.of_chunk + after * element + input});
    }
    // A stage without a backward holds the values of one layer while it runs the layer's forward.
    if (part.below == part.layers) most = (layer + layer_held(m, rows, segments, {})) * element;
    const std::int64_t mapped = is_mapped ? block : 0;
    values.workspace = mapped + std::max(loss - mapped, most + unpacked);
    values.parts.resize(static_cast<std::size_t>(layers) + 1);
    values.parts.push_back({part.first ? 2 * input : 0, part.first ? input : 0});
    return values;
}

}  // namespace

std::int64_t microbatch_tokens(const spec::TrainSpec& spec) {
    return spec.micro_batch_size * spec.sequences_per_sample() * spec.seq_length;
}

double recompute_flops_per_token(const spec::ModelConfig& m, const spec::TrainSpec& spec,
                                 const Recomputed& recompute) {
    double flops = 0;
    for (std::int64_t layer = 0; layer < std::ssize(recompute); ++layer)
        flops += layer_flops(m, spec, layer).again(layer_of(recompute, layer), m.post_norms);
    return flops / static_cast<double>(rank_tokens(spec));
}

std::int64_t parameter_count(const spec::ModelConfig& m) {
    const std::int64_t outputs = m.tied ? 0 : head_outputs(m);
    return (m.vocab + outputs) * m.hidden + parameters_of(m, m.layers) + m.hidden;
}

FlopsPerToken flops_per_token(const spec::ModelConfig& m, std::int64_t seq_length,
                              const Untrained& untrained) {
    return flops_per_token(m, std::span(&seq_length, 1), untrained);
}

FlopsPerToken flops_per_token(const spec::ModelConfig& m, std::span<const std::int64_t> lengths,
                              const Untrained& untrained) {
    const std::int64_t head = head_outputs(m) * m.hidden;
    const double products = static_cast<double>(products_of(m, m.layers) + head);
    // elements whose products have no input gradient
    std::int64_t below = std::clamp<std::int64_t>(untrained.lowest, 0, m.layers) *
                         (products_of(m, 1) - lora_factors(m, 1));
    if (untrained.lowest > m.layers) below += head;
    // `causal` and `full`: number of attention scores, summed over all tokens and layers. A layer
    // with backward counts three times: once for forward and twice for backward.
    double tokens = 0, causal = 0, full = 0;
    for (const std::int64_t length : lengths) {
        const double whole = static_cast<double>(length);
        tokens += whole;
        for (std::int64_t layer = 0; layer < m.layers; ++layer) {
            const auto window = static_cast<double>(m.window_of(layer));
            const double passes = layer < untrained.lowest ? 1 : 3;
            causal += passes * positions_seen(whole, window);
            full += passes * whole * (window > 0 ? std::min(window, whole) : whole);
        }
    }
    // FLOPs per attention score, for two products: of a query and a key, and of a probability and a
    // value
    const double score = 4.0 * static_cast<double>(m.heads * m.head_dim);
    const double linear = 6 * products - 2.0 * static_cast<double>(untrained.elements + below);
    return {linear + score * causal / tokens, linear + score * full / tokens};
}

std::int64_t part_parameters(const spec::ModelConfig& model, const StagePart& part) {
    const spec::ModelConfig m = part_of(model, part.tp);
    std::int64_t count = parameters_of(m, part.layers);
    if (part.first) count += m.vocab * m.hidden;
    if (part.last) count += m.hidden + (m.tied && part.first ? 0 : head_outputs(m) * m.hidden);
    return count;
}

MemoryBytes memory_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                         const Held& held) {
    const StagePart part = held.part.value_or(StagePart{model.layers, 1, true, true, held.frozen});
    const spec::ModelConfig m = part_of(model, part.tp);
    const std::int64_t element = element_bytes(spec.precision), main = main_bytes(spec.precision);
    const std::int64_t count = part_parameters(model, part);
    MemoryBytes bytes;
    const std::int64_t moving = count - held.frozen, states = held.states.value_or(2 * moving);
    const Owned owned = held.owned.value_or(Owned{count, moving, states, held.outside});
    bytes.weights = owned.weights > 0 ? owned.weights * element
                                      : count * element - part.layers * layer_saving(m, element);
    // The frozen weights of a LoRA job have no main weights.
    const bool is_lora = model.lora.is_set();
    bytes.main_weights =
        (is_lora ? owned.trained : owned.all) * copy_bytes(spec.precision, held.on_gpu);
    // On a CPU, the pages of frozen parameters' gradients are never written and take no memory.
    bytes.gradients = (owned.gradients ? owned.trained : held.on_gpu ? count : moving) * main;
    bytes.moments = (owned.states - owned.outside.states) * main;
    const std::int64_t outside =
        held.on_gpu ? owned.outside.main * copy_bytes(spec.precision, true) : 0;
    bytes.main_weights -= outside;
    bytes.offloaded = owned.outside.states * main + outside;
    const StepValues values = step_values(m, spec, part, held, owned.gradients);
    bytes.offloaded += values.offloaded;
    bytes.updated = owned.trained * main;
    const Moment moment = step_moment(held, values, part, m.tied, spec.microbatches() > 1, main);
    bytes.activations = std::min(values.activations, moment.values);
    bytes.workspace = moment.values - bytes.activations;
    bytes.exchange = moment.exchange;
    bytes.snapshot = snapshot_bytes(spec, is_lora, written_weights(model, spec, part, count),
                                    states - held.copied_states);
    bytes.program = held.on_gpu ? 0 : program_bytes(spec);
    return bytes;
}

std::vector<Costs> stage_costs(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                               std::span<const StagePart> parts, const Recomputed& recompute) {
    const auto tokens = static_cast<double>(rank_tokens(spec));
    const auto sequences = tokens / static_cast<double>(spec.seq_length);
    // The logits of answers are computed twice: for the log-probabilities, and later for the
    // gradient.
    const double head_products = spec.data.has_answers() ? 4 : 3;
    const int tp = parts.empty() ? 1 : parts.front().tp;
    const spec::ModelConfig m = part_of(model, tp);
    const Rows rows = rows_of(spec, tp);
    const double score = 4.0 * static_cast<double>(m.heads * m.head_dim);
    const bool segments = has_pieces(spec);
    const std::int64_t input = rows.outer * m.hidden, element = element_bytes(spec.precision);
    std::vector<Costs> costs;
    double layers_flop = 0;  // FLOPs of the forward pass of all layers
    for (const StagePart& part : parts) {
        const double products = 2 * tokens * static_cast<double>(products_of(m, part.layers));
        double attention = 0, attention_back = 0, again = 0;
        std::int64_t saved = 0;
        for (std::int64_t layer = part.first_layer; layer < part.first_layer + part.layers;
             ++layer) {
            const double own = score * sequences *
                               positions_seen(static_cast<double>(spec.seq_length),
                                              static_cast<double>(m.window_of(layer)));
            attention += own;
            if (layer < part.lowest) continue;
            const LayerRecompute kind = layer_of(recompute, layer);
            attention_back += 2 * own;
            again += layer_flops(m, spec, layer).again(kind, m.post_norms);
            saved += layer_held(m, rows, segments, kind);
        }
        const std::int64_t layers = part.layers - part.below;  // layers that have a backward
        const double back = 2 * tokens * static_cast<double>(products_of(m, layers));
        const std::int64_t held = saves_input(part, m) ? input : 0;
        const double head =
            part.last ? 2 * tokens * static_cast<double>(head_outputs(m) * m.hidden) : 0;
        layers_flop += products + attention;
        costs.push_back({.forward = products + attention + head_products * head,
                         .backward_input = back + attention_back + again,
                         .backward_weight = back,
                         .after_forward = (held + saved) * element,
                         .after_backward = (held + layers * layer_owed(m, rows)) * element,
                         .sends_gradients = part.lowest < part.first_layer});
    }
    const double unit = layers_flop / static_cast<double>(parts.size());
    for (Costs& cost : costs) {
        cost.forward /= unit;
        cost.backward_input /= unit;
        cost.backward_weight /= unit;
    }
    return costs;
}

CheckpointBytes checkpoint_bytes(const spec::ModelConfig& m, spec::Precision precision,
                                 std::int64_t frozen, std::optional<std::int64_t> states) {
    const std::int64_t count = parameter_count(m), main = main_bytes(precision);
    const std::int64_t trained = count - frozen;
    return {(m.lora.is_set() ? trained : count) * main, states.value_or(2 * trained) * main};
}

}  // namespace roll::plan
