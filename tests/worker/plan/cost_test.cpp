#include "worker/plan/cost.hpp"

#include <array>
#include <optional>

#include <gtest/gtest.h>

#include "tests/worker/plan/smollm2.hpp"
#include "worker/plan/spare_room.hpp"
#include "worker/plan/tensor_bytes.hpp"

namespace roll::plan {
namespace {

TEST(Cost, CountsThePublishedParametersOfARealModel) {
    EXPECT_EQ(parameter_count(smollm2()), 134'515'008);  // the published number for SmolLM2-135M
}

TEST(Cost, CountsSixFlopsAParameterAndTheScoresThatAMaskLeaves) {
    const spec::ModelConfig model = smollm2();
    // weights without norms, with the tied output layer
    const double products = 134'515'008.0 - 61 * 576;
    const double scores = 12.0 * 30 * 576;  // FLOPs per token and visible position
    const FlopsPerToken flops = flops_per_token(model, 2048);
    EXPECT_DOUBLE_EQ(flops.full, 6 * products + scores * 2048);
    EXPECT_DOUBLE_EQ(flops.causal, 6 * products + scores * 2049 / 2);
}

// Sizes counted by hand. A head has 3 channels, although hidden / heads is 2.
TEST(Cost, HeadsAreAsWideAsTheConfigSays) {
    spec::ModelConfig model;
    model.hidden = 4;
    model.layers = 1;
    model.heads = 2;
    model.kv_heads = 1;
    model.head_dim = 3;
    model.intermediate = 5;
    model.vocab = 7;
    // Multiply-adds per token: q 24, k 12, v 12, o 24; gate, up, down 20 each; output layer 28: 160
    // in all. A visible position costs 2 heads x 3 for its score and as many for its value: 12.
    const FlopsPerToken flops = flops_per_token(model, 4);
    EXPECT_DOUBLE_EQ(flops.full, 3 * 2 * (160 + 12 * 4));
    // a token sees (1 + 2 + 3 + 4) / 4 positions
    EXPECT_DOUBLE_EQ(flops.causal, 3 * 2 * (160 + 12 * 2.5));
}

TEST(Cost, SequencesThatAreKeptApartCostTheSumOfTheirSquares) {
    const spec::ModelConfig model = smollm2();
    const double products = 134'515'008.0 - 61 * 576, scores = 12.0 * 30 * 576;
    const FlopsPerToken flops = flops_per_token(model, std::array<std::int64_t, 3>{3, 5, 1});
    EXPECT_DOUBLE_EQ(flops.full, 6 * products + scores * (9 + 25 + 1) / 9);
    EXPECT_DOUBLE_EQ(flops.causal, 6 * products + scores * (6 + 15 + 1) / 9);
    spec::ModelConfig sliding = model;
    sliding.window = 2;  // visible positions: 1 2 2, 1 2 2 2 2, 1
    EXPECT_DOUBLE_EQ(flops_per_token(sliding, std::array<std::int64_t, 3>{3, 5, 1}).causal,
                     6 * products + scores * (5 + 9 + 1) / 9);
}

TEST(Cost, MemoryFollowsThePrecisionAndTheMicrobatch) {
    spec::TrainSpec spec;
    spec.seq_length = 128;
    spec.micro_batch_size = 2;
    const MemoryBytes one = memory_bytes(smollm2(), spec, {});
    EXPECT_EQ(one.weights, 4 * 134'515'008LL);
    EXPECT_EQ(one.moments, 2 * one.weights);
    spec.precision = spec::Precision::Fp64;
    EXPECT_EQ(memory_bytes(smollm2(), spec, {}).weights, 2 * one.weights);
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.live = 3}).activations, 6 * one.activations);
    EXPECT_EQ(checkpoint_bytes(smollm2(), spec::Precision::Fp32).optimizer, one.moments);
}

TEST(Cost, TensorParallelRanksShareLayersAndWithSequenceParallelismTheRows) {
    spec::TrainSpec spec;
    spec.seq_length = 128;
    spec.micro_batch_size = 3;
    spec.global_batch_size = 6;
    spec.parallel.tp = 3;
    const StagePart part{.layers = 30, .tp = 3};
    const std::int64_t whole = parameter_count(smollm2());
    constexpr std::int64_t kNorms = 61 * 576;
    EXPECT_EQ(part_parameters(smollm2(), part), (whole - kNorms) / 3 + kNorms);
    const auto activations = [&] {
        return memory_bytes(smollm2(), spec, {.part = part}).activations;
    };
    // elements per token: q, k, v, the attention output, gate and up; a layer also has two inputs
    // of norms
    constexpr std::int64_t kTokens = 3 * 128, kHidden = 4 * 576;
    const std::int64_t inner = 30 * kTokens * (192 + 64 + 64 + 192 + 1024) * 4;
    EXPECT_EQ(activations(), inner + kTokens * 61 * kHidden);
    spec.parallel.sequence = true;
    EXPECT_EQ(activations(), inner + kTokens / 3 * 61 * kHidden);
    // 10 transfers a layer and 2 at each end, each of two thirds of the rows, in 2 micro-batches
    EXPECT_EQ(tensor_bytes(smollm2(), spec, part, {}), 304 * 2 * kTokens * kHidden * 2 / 3);
}

TEST(Cost, FrozenParametersHaveNoMoments) {
    spec::TrainSpec spec;
    spec.seq_length = 128;
    spec.micro_batch_size = 1;
    spec.global_batch_size = 2;
    constexpr std::int64_t kFrozen = 49152 * 576;
    const MemoryBytes all = memory_bytes(smollm2(), spec, {});
    const MemoryBytes some = memory_bytes(smollm2(), spec, {.frozen = kFrozen});
    EXPECT_EQ(some.weights, all.weights);
    EXPECT_EQ(some.moments, all.moments - 8 * kFrozen);
    EXPECT_EQ(some.snapshot, all.snapshot - 8 * kFrozen);
    EXPECT_EQ(some.gradients, all.gradients - 4 * kFrozen);
    const Held on_gpu{.frozen = kFrozen, .on_gpu = true};
    EXPECT_EQ(memory_bytes(smollm2(), spec, on_gpu).gradients, all.gradients);
    const CheckpointBytes disk = checkpoint_bytes(smollm2(), spec::Precision::Bf16, kFrozen);
    EXPECT_EQ(disk.weights, all.weights);
    EXPECT_EQ(disk.optimizer, some.moments);
}

TEST(Cost, SharedOptimizerStateAndGradientsAreTheRanksPart) {
    spec::TrainSpec spec;
    spec.precision = spec::Precision::Bf16;
    spec.seq_length = 128;
    spec.micro_batch_size = 1;
    spec.global_batch_size = 2;
    const Owned owned{.all = 1000, .trained = 800, .states = 1600};
    const MemoryBytes whole = memory_bytes(smollm2(), spec, {});
    const MemoryBytes part = memory_bytes(smollm2(), spec, {.owned = owned});
    EXPECT_EQ(part.main_weights, 2 * 1000);
    EXPECT_EQ(part.moments, 2 * 4 * 800);
    EXPECT_EQ(part.exchange, 0);
    EXPECT_EQ(part.weights, whole.weights);
    EXPECT_EQ(part.gradients, whole.gradients);
    Owned staged = owned;
    staged.gradients = true;
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.owned = staged}).gradients, 4 * 800);
}

// Three buckets: the output layer with layer 1, layer 0, and the embedding. Sizes of their
// gradients: 8, 2, 4; of their buffers: twice that.
constexpr ExchangeBucket kBuckets[] = {{1, 8, 16}, {0, 2, 4}, {-1, 4, 8}};

TEST(ExchangePeak, IsAtTheMomentWithTheMostMemory) {
    const auto peak = [](const ExchangeRule& rule, std::int64_t activations) {
        // values during and after the loss, layer 1, layer 0 and the embedding
        const std::int64_t a = activations;
        const PartValues parts[] = {{3 * a, 2 * a}, {2 * a, a}, {a, 0}, {1, 0}};
        const Moment most = exchange_peak(kBuckets, rule, parts);
        return std::pair(most.values, most.exchange);
    };
    using Pair = std::pair<std::int64_t, std::int64_t>;
    // The smaller the activations, the later: the loss, before any sum; the first sum, after layer
    // 1; the embedding, while two sums are pending.
    EXPECT_EQ(peak({}, 100), Pair(300, 0));
    EXPECT_EQ(peak({}, 7), Pair(7, 16));
    EXPECT_EQ(peak({}, 0), Pair(1, 20));
    // Incomplete buckets: the first one at the loss; with a tied output layer, also the embedding.
    EXPECT_EQ(peak({.staged = true}, 100), Pair(300, 8));
    EXPECT_EQ(peak({.staged = true, .tied = true}, 100), Pair(300, 12));
    EXPECT_EQ(peak({.staged = true}, 0), Pair(1, 24));
    // The previous micro-batch's sums of the last two buckets are pending.
    EXPECT_EQ(peak({.staged = true, .continued = true}, 100), Pair(300, 20));
    EXPECT_EQ(pending_at_end(kBuckets), 12);
}

TEST(Cost, RanksThatShareStateAddTheirExchangeOnlyAtThePeak) {
    spec::TrainSpec spec;
    spec.seq_length = 128;
    spec.micro_batch_size = 1;
    spec.global_batch_size = 4;
    spec.parallel.dp = 2;
    constexpr std::int64_t kGradients = 100, kBuffers = 200;
    // complete after the last layer's backward, when the loss has freed its values
    const Owned owned{.all = 1, .trained = 1, .buckets = {{{29, kGradients, kBuffers}}}};
    const MemoryBytes one = memory_bytes(smollm2(), spec, {});
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.owned = owned}).exchange, 0);
    Owned staged = owned;
    staged.gradients = true;
    const MemoryBytes all = memory_bytes(smollm2(), spec, {.owned = staged});
    EXPECT_EQ(all.exchange, kGradients + kBuffers);  // of this micro-batch, and of the previous one
    EXPECT_EQ(all.activations + all.workspace, one.activations + one.workspace);
    // Muon's matrices exist only when the activations are gone.
    const std::int64_t values = one.activations + one.workspace;
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.matrices = values / 8}).exchange, 0);
    const MemoryBytes update = memory_bytes(smollm2(), spec, {.matrices = values});
    EXPECT_EQ(update.activations + update.workspace, 0);
    EXPECT_EQ(update.exchange, 4 * values);
}

TEST(Cost, FrozenWeightsHaveNoGradientsAndWindowsBoundTheFullCount) {
    spec::ModelConfig model = smollm2();
    const FlopsPerToken whole = flops_per_token(model, 2048);
    const FlopsPerToken frozen = flops_per_token(model, 2048, {.elements = 1'000'000});
    EXPECT_DOUBLE_EQ(whole.causal - frozen.causal, 2e6);
    EXPECT_DOUBLE_EQ(whole.full - frozen.full, 2e6);
    model.window = 256;
    const FlopsPerToken windowed = flops_per_token(model, 2048);
    const double score = 3.0 * 4 * static_cast<double>(model.heads * model.head_dim);
    EXPECT_DOUBLE_EQ(whole.full - windowed.full,
                     score * static_cast<double>(model.layers) * (2048 - 256));
    EXPECT_DOUBLE_EQ(flops_per_token(model, 128).full, flops_per_token(smollm2(), 128).full);
}

// Without biases and LoRA, the weights of a layer's products are all its matrices.
TEST(Cost, LayersBelowTheLowestTrainedOneHaveOnlyAForward) {
    const spec::ModelConfig model = smollm2();
    const auto flops = [&](std::int64_t lowest) {
        return flops_per_token(model, 2048, {.lowest = lowest}).full;
    };
    const std::int64_t attention = model.heads * model.head_dim;
    const std::int64_t products =
        model.hidden * (2 * attention + 2 * model.kv_heads * model.head_dim) +
        3 * model.hidden * model.intermediate;
    const double layer =
        2.0 * static_cast<double>(products) + 2 * 4.0 * static_cast<double>(attention) * 2048;
    EXPECT_DOUBLE_EQ(flops(0), flops(-1));
    EXPECT_DOUBLE_EQ(flops(0) - flops(12), 12 * layer);
    EXPECT_DOUBLE_EQ(flops(0) - flops(model.layers), static_cast<double>(model.layers) * layer);
    EXPECT_DOUBLE_EQ(flops(model.layers) - flops(model.layers + 1),
                     2.0 * static_cast<double>(model.vocab * model.hidden));
    spec::TrainSpec spec;
    spec.seq_length = 256;
    spec.micro_batch_size = spec.global_batch_size = 4;
    const auto bytes = [&](std::int64_t below) {
        StagePart part{model.layers};
        part.lowest = part.below = below;
        return memory_bytes(model, spec, {.frozen = 1, .part = part}).activations;
    };
    EXPECT_EQ(bytes(10) - bytes(20), bytes(0) - bytes(10));
    EXPECT_GT(bytes(10), bytes(20));
    EXPECT_EQ(
        stage_costs(model, spec, std::vector<StagePart>{{.layers = 30, .lowest = 31, .below = 30}})
            .front()
            .after_forward,
        0);
}

TEST(Cost, OneMicrobatchAStepSavesInTheMemoryOfGradients) {
    spec::TrainSpec spec;
    spec.precision = spec::Precision::Bf16;
    spec.seq_length = 256;
    spec.micro_batch_size = spec.global_batch_size = 4;
    const std::int64_t tokens = 4 * 256, per_layer = 2 * 576 + 2 * 576 + 2 * 192 + 2 * 1536;
    const MemoryBytes one = memory_bytes(smollm2(), spec, {});
    // One layer's activations remain: each layer has more gradients than saved activations, so its
    // activations fit in the memory of the layer before it, but the first layer has none before it.
    EXPECT_EQ(one.activations, 2 * tokens * (per_layer + 576));
    spec.global_batch_size = 8;
    const MemoryBytes two = memory_bytes(smollm2(), spec, {});
    EXPECT_EQ(two.activations, 2 * tokens * (30 * per_layer + 576));
    // the peak is in a layer's backward
    EXPECT_EQ(one.workspace, 2 * tokens * (2 * 576 + 4 * 1536));
    // The block of half of the logits is mapped, and adds to the heap's peak in a layer's backward.
    EXPECT_EQ(two.workspace, tokens * 49152 + one.workspace);
    spec.global_batch_size = 4;
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.on_gpu = true}).activations, two.activations);
    EXPECT_EQ(memory_bytes(smollm2(), spec, {.frozen = 576}).activations, two.activations);
}

TEST(SpareRoom, OfALayerLiesBeforeItsGradients) {
    SpareRoom room(100, 1000, 3);
    EXPECT_EQ(room.take(0, 1), std::nullopt);
    EXPECT_EQ(room.take(1, 500), 128);  // 500 is behind 100, at the next multiple of 64
    EXPECT_EQ(room.take(1, 461), std::nullopt);
    EXPECT_EQ(room.take(1, 460), 640);
    EXPECT_EQ(room.take(2, 1000), std::nullopt);
    EXPECT_EQ(room.take(2, 900), 1152);
    EXPECT_EQ(room.take(3, 980), 2112);
    room.clear();
    EXPECT_EQ(room.take(3, 2972), 128);
    EXPECT_EQ(room.take(4, 1), std::nullopt);
}

}  // namespace
}  // namespace roll::plan
