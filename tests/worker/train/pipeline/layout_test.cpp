// Tests that every layout trains like one rank that executes the same micro-batches. After each
// of three steps, compares the loss, the gradient norm, the number of zero gradients, the clip
// factor, and all gradients, weights and moments; at the end, the loss of other data. Computes in
// float64, and compares to 1e-12. The weights of all replicas, and both copies of a tied
// embedding, must be bitwise equal. Clipping acts in every step.
#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

TEST(Layout, EveryLayoutTrainsAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = world_model(tied);
        const Named reference = train_alone(config);
        for (const int dp : {1, 2}) {
            for (const int pp : {1, 2, 4}) {
                const int m = kMicrobatches / dp;
                const double errors[] = {
                    worst(train(config, plan::gpipe(pp, 1, m), {dp}), reference),
                    worst(train(config, plan::one_forward_one_backward(pp, m), {dp}), reference),
                    worst(train(config, plan::interleaved(pp, 2, m), {dp}), reference),
                    worst(train(config, plan::zero_bubble_h1(pp, m), {dp}), reference)};
                std::printf(
                    "tied %d dp %d pp %d: gpipe %.1e 1f1b %.1e interleaved %.1e zero-bubble %.1e\n",
                    tied, dp, pp, errors[0], errors[1], errors[2], errors[3]);
            }
        }
    }
}

// The first and the last stage are on the same rank, and so is a tied embedding.
TEST(Layout, StagesPlacedAsVTrainAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = world_model(tied);
        const Named reference = train_alone(config);
        for (const int dp : {1, 2}) {
            for (const int pp : {1, 2, 4}) {
                const int m = kMicrobatches / dp;
                const plan::PipelineSchedule gpipe = plan::gpipe(pp, 2, m, plan::Placement::V);
                const double errors[] = {
                    worst(train(config, plan::zero_bubble_v(pp, m), {dp}), reference),
                    worst(train(config, gpipe, {dp}), reference)};
                std::printf("tied %d dp %d pp %d: zero-bubble V %.1e gpipe %.1e\n", tied, dp, pp,
                            errors[0], errors[1]);
            }
        }
        const plan::PipelineSchedule dual = plan::dual_pipe_v(4, kMicrobatches).value();
        worst(train(config, dual), reference);
        const plan::PipelineSchedule grouped = plan::interleaved(2, 4, kMicrobatches, 3);
        worst(train(config, grouped), reference);
        worst(train(split_model(tied), plan::zero_bubble_v(1, kMicrobatches), {1, 2}),
              train_alone(split_model(tied)));
    }
}

TEST(Layout, TensorParallelRanksTrainAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = split_model(tied);
        const Named reference = train_alone(config);
        for (const int tp : {2, 4}) {
            const int m = kMicrobatches;
            const double errors[] = {
                worst(train(config, plan::gpipe(1, 1, m), {1, tp}), reference),
                worst(train(config, plan::zero_bubble_h1(2, m), {1, tp}), reference),
                worst(train(config, plan::interleaved(2, 2, m / 2), {2, tp}), reference)};
            std::printf("tied %d tp %d: alone %.1e pp 2 %.1e pp 2 dp 2 %.1e\n", tied, tp, errors[0],
                        errors[1], errors[2]);
        }
    }
}

// A micro-batch has 22 rows, which 4 ranks do not divide.
TEST(Layout, SequenceParallelRanksTrainAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = split_model(tied);
        const Named reference = train_alone(config);
        for (const int tp : {2, 4}) {
            const int m = kMicrobatches;
            const Cell one{.tp = tp, .sequence = true}, two{.dp = 2, .tp = tp, .sequence = true};
            const double errors[] = {
                worst(train(config, plan::gpipe(1, 1, m), one), reference),
                worst(train(config, plan::zero_bubble_h1(2, m), one), reference),
                worst(train(config, plan::interleaved(2, 2, m / 2), two), reference)};
            std::printf("tied %d tp %d, sequence: alone %.1e pp 2 %.1e pp 2 dp 2 %.1e\n", tied, tp,
                        errors[0], errors[1], errors[2]);
        }
    }
}

// SmolLM2's heads
TEST(Layout, NineHeadsInThreeGroupsTrainOnThreeRanks) {
    spec::ModelConfig config = world_model(true);
    config.heads = 9;
    config.kv_heads = 3;
    config.intermediate = 39;
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(2, kMicrobatches);
    const Named reference = train_alone(config);
    for (const bool sequence : {false, true})
        worst(train(config, schedule, {.tp = 3, .sequence = sequence}), reference);
}

TEST(Layout, ARankMayHaveNoTokenOfTheVocabulary) {
    spec::ModelConfig config = split_model(false);
    config.vocab = 5;  // 2, 2, 1 and 0 tokens
    const plan::PipelineSchedule schedule = plan::gpipe(1, 1, kMicrobatches);
    const Named reference = train_alone(config);
    for (const bool sequence : {false, true})
        worst(train(config, schedule, {.tp = 4, .sequence = sequence}), reference);
}

TEST(Layout, EveryTensorParallelRankStartsFromTheBitsOfTheWholeModel) {
    const spec::ModelConfig config = split_model(false);
    const auto drawn = [&](int tp) {
        Named seen;
        for (int rank = 0; rank < tp; ++rank) {
            const Parameters p = make_parameters(
                parameter_specs(config, {.layer_end = 2, .tp = tp, .tp_rank = rank}),
                {.seed = 5, .std = 0.1, .dtype = at::kFloat});
            for (std::size_t i = 0; i < p.specs.size(); ++i)
                note_part(seen, p.specs[i].name, p.specs[i], p.weight[i]);
        }
        return seen;
    };
    const Named whole = drawn(1);
    for (const int tp : {2, 4}) {
        const Named joined = drawn(tp);
        ASSERT_EQ(joined.size(), whole.size());
        for (const auto& [name, tensor] : whole) EXPECT_TRUE(joined.at(name).equal(tensor)) << name;
    }
}

// Each stage draws only its own parameters, not the whole model.
TEST(Layout, EveryStageStartsFromTheBitsOfTheWholeModel) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = tiny_model(tied);
        const auto drawn = [&](int stage, int stages) {
            const Parameters p =
                make_parameters(parameter_specs(config, stage_chunks(config, {stages})[stage]),
                                {.seed = 5, .std = 0.1, .dtype = at::kFloat});
            Named named;
            for (std::size_t i = 0; i < p.specs.size(); ++i)
                named[p.specs[i].name] = p.weight[i].clone();
            return named;
        };
        const Named whole = drawn(0, 1);
        for (const int stages : {2, 4}) {
            Named joined;
            for (int stage = 0; stage < stages; ++stage) joined.merge(drawn(stage, stages));
            ASSERT_EQ(joined.size(), whole.size());
            for (const auto& [name, tensor] : whole) EXPECT_TRUE(joined.at(name).equal(tensor));
        }
    }
}

}  // namespace
}  // namespace roll::train
