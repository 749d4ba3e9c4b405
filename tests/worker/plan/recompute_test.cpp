// Tests what each layer computes again, and what this changes in the plan of a job.
#include "worker/plan/recompute.hpp"

#include <gtest/gtest.h>

#include "worker/plan/cost.hpp"

namespace roll::plan {
namespace {

using spec::Recompute;

spec::ModelConfig model() {
    spec::ModelConfig model;
    model.hidden = 64;
    model.layers = 8;
    model.heads = 4;
    model.kv_heads = 2;
    model.head_dim = 16;
    model.intermediate = 128;
    model.vocab = 256;
    return model;
}

spec::TrainSpec job() {
    spec::TrainSpec spec;
    spec.seq_length = 512;
    spec.micro_batch_size = 4;
    spec.global_batch_size = 16;
    return spec;
}

Recomputed all_layers(Recompute kind, std::int64_t count = 8, std::int64_t unit = 1) {
    Recomputed all(8);
    set_recomputed(all, {0, 8}, kind, count, unit);
    return all;
}

TEST(Recompute, UniformMakesUnitsThatEndWithTheChunk) {
    spec::ParallelSpec parallel;
    parallel.recompute = Recompute::Full;
    parallel.recompute_layers = 3;
    const Recomputed all = recomputed_of(parallel, {{0, 5}, {5, 8}});
    std::string inputs, outputs;
    for (const LayerRecompute& layer : all) {
        EXPECT_TRUE(layer.full());
        inputs += layer.keeps_input ? '1' : '0';
        outputs += layer.keeps_output ? '1' : '0';
    }
    EXPECT_EQ(inputs, "10010100");
    EXPECT_EQ(outputs, "00101001");
}

TEST(Recompute, BlockTakesTheFirstLayersOfEachChunk) {
    spec::ParallelSpec parallel;
    parallel.recompute = Recompute::Full;
    parallel.recompute_method = spec::RecomputeMethod::Block;
    parallel.recompute_layers = 2;
    EXPECT_EQ(recomputed_text(recomputed_of(parallel, {{0, 4}, {4, 5}, {5, 8}})),
              "layers 0 to 1 full, layers 4 to 6 full");
    parallel.recompute = Recompute::None;
    EXPECT_EQ(recomputed_text(recomputed_of(parallel, {{0, 8}})), "nothing");
    EXPECT_EQ(recomputed_text(all_layers(Recompute::Full, 8, 4)),
              "layers 0 to 7 full in units of 4");
}

// Elements per token, counted by hand: q 64, k 32, v 32, the attention output 64, the input of the
// second norm 64, gate and up 256, the layer's output 64.
TEST(Recompute, OfALayerOnlyTheRestIsHeld) {
    const std::pair<Recompute, std::int64_t> kinds[] = {{Recompute::None, 576},
                                                        {Recompute::Attention, 576 - 192},
                                                        {Recompute::Mlp, 576 - 256},
                                                        {Recompute::AttentionMlp, 128},
                                                        {Recompute::Full, 64}};
    const StagePart part{.layers = 8};
    constexpr std::int64_t kTokens = 4 * 512;
    for (const auto& [kind, elements] : kinds) {
        const Recomputed all = all_layers(kind);
        const Costs costs = stage_costs(model(), job(), {&part, 1}, all).front();
        EXPECT_EQ(costs.after_forward, (64 + 8 * elements) * kTokens * 4);
        EXPECT_EQ(memory_bytes(model(), job(), {.recompute = all}).activations,
                  costs.after_forward);
    }
    const Recomputed units = all_layers(Recompute::Full, 8, 4);
    EXPECT_EQ(memory_bytes(model(), job(), {.recompute = units}).activations,
              (64 + 2 * 64) * kTokens * 4);
}

// While the last unit of layers is in backward, all that it computed again is held as well.
TEST(Recompute, TheWorkspaceHoldsTheUnitThatIsComputedAgain) {
    constexpr std::int64_t kTokens = 4 * 512, kLayer = 2 * 64 + 4 * 128;
    const auto workspace = [&](const Recomputed& all) {
        return memory_bytes(model(), job(), {.recompute = all}).workspace;
    };
    EXPECT_EQ(workspace(all_layers(Recompute::Full)), (512 + kLayer) * kTokens * 4);
    EXPECT_EQ(workspace(all_layers(Recompute::Full, 8, 4)),
              (4 * 512 + 3 * 64 + kLayer) * kTokens * 4);
    // the layers that save everything are done before layer 0 is computed again
    EXPECT_EQ(workspace(all_layers(Recompute::Full, 1)), kLayer * kTokens * 4);
}

TEST(Recompute, CostsTheProductsWhoseResultsBackwardNeeds) {
    const auto flops = [](const Recomputed& all) {
        return recompute_flops_per_token(model(), job(), all);
    };
    const double qkv = 2 * 64 * 128, out = 2 * 64 * 64, gate_up = 2 * 64 * 256, down = 2 * 64 * 128;
    const double scores = 4.0 * 64 * 513 / 2;
    EXPECT_DOUBLE_EQ(flops({}), 0);
    EXPECT_DOUBLE_EQ(flops(all_layers(Recompute::Attention)), 8 * (qkv + scores));
    EXPECT_DOUBLE_EQ(flops(all_layers(Recompute::Mlp, 3)), 3 * gate_up);
    EXPECT_DOUBLE_EQ(flops(all_layers(Recompute::Full)), 8 * (qkv + scores + out + gate_up));
    EXPECT_DOUBLE_EQ(flops(all_layers(Recompute::Full, 8, 4)),
                     8 * (qkv + scores + out + gate_up) + 6 * down);
}

}  // namespace
}  // namespace roll::plan
