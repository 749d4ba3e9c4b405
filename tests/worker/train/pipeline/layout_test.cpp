// Tests layouts that the grid (grid_test.cpp) does not have, to 1e-12: other numbers of heads, a
// vocabulary smaller than the ranks, given groups. Tests that ranks and stages draw their part of
// the whole model's first weights.
#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

TEST(Layout, InterleavingInGroupsOfAGivenSizeTrainsAsOneRankDoes) {
    const spec::ModelConfig config = world_model(true);
    worst(train(config, plan::interleaved(2, 4, kMicrobatches, 3)), train_alone(config));
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
