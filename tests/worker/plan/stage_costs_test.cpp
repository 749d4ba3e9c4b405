// Tests the costs of pipeline stages, and plans the schedule of a very large job.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/worker/plan/smollm2.hpp"
#include "worker/plan/cost.hpp"
#include "worker/plan/layer_values.hpp"
#include "worker/plan/pipeline_choice.hpp"

namespace roll::plan {
namespace {

spec::ModelConfig llama_405b() {
    spec::ModelConfig model;
    model.hidden = 16384;
    model.layers = 126;
    model.heads = 128;
    model.kv_heads = 8;
    model.head_dim = 128;
    model.intermediate = 53248;
    model.vocab = 128256;
    return model;
}

// Returns stages of equally many layers. With `ends`, the embedding and the output layer count as
// layers.
std::vector<StagePart> parts_of(std::int64_t layers, int stages, bool ends) {
    std::vector<StagePart> parts;
    const std::int64_t each = (layers + (ends ? 2 : 0)) / stages;
    std::int64_t next = 0;
    for (int i = 0; i < stages; ++i) {
        const bool is_end = i == 0 || i + 1 == stages;
        parts.push_back({.layers = each - (ends && is_end ? 1 : 0),
                         .first = i == 0,
                         .last = i + 1 == stages,
                         .first_layer = next});
        next += parts.back().layers;
    }
    return parts;
}

TEST(StageCosts, TheLastStageHasTheOutputLayerWithBothHalvesOfItsBackward) {
    spec::TrainSpec spec;
    spec.seq_length = 1;  // almost no attention scores
    spec.micro_batch_size = 1;
    const std::vector<Costs> costs = stage_costs(smollm2(), spec, parts_of(30, 5, false));
    const double layer = 576.0 * (576 + 2 * 192) + 576.0 * 576 + 3.0 * 576 * 1536;
    EXPECT_NEAR(costs[1].forward, 1, 1e-12);
    EXPECT_NEAR(costs[1].backward_input, 1, 1e-3);
    EXPECT_NEAR(costs[1].backward_weight, 1, 1e-3);
    EXPECT_NEAR(costs[4].forward, 1 + 3 * 49152.0 * 576 / (6 * layer), 1e-2);
    EXPECT_NEAR(costs[4].backward_input, 1, 1e-3);
}

TEST(StageCosts, AContextParallelRankSavesItsShareOfThePaddedSequences) {
    spec::TrainSpec spec;
    spec.seq_length = 4096;
    spec.micro_batch_size = 2;
    const auto saved = [&] { return stage_costs(smollm2(), spec, parts_of(30, 5, false))[1]; };
    const Costs whole = saved();
    spec.parallel.cp = 4;
    EXPECT_EQ(4 * saved().after_forward, whole.after_forward);
    EXPECT_EQ(4 * saved().after_backward, whole.after_backward);
    EXPECT_EQ(rank_tokens(spec), 2 * 1024);
    spec.seq_length = 4097;  // 8 slices of 513 positions
    EXPECT_EQ(rank_tokens(spec), 2 * 2 * 513);
}

TEST(StageCosts, AttentionCostsTwiceAsMuchInBackward) {
    spec::TrainSpec spec;
    spec.seq_length = 4096;
    spec.micro_batch_size = 2;
    const Costs cost = stage_costs(smollm2(), spec, parts_of(30, 5, false))[1];
    const double attention = cost.forward - cost.backward_weight;
    EXPECT_GT(attention, 0.1);
    EXPECT_NEAR(cost.backward_input - cost.backward_weight, 2 * attention, 1e-12);
}

TEST(StageCosts, AMicrobatchHoldsHalfAsMuchAgainBetweenTheHalvesOfBackward) {
    spec::TrainSpec spec;
    spec.seq_length = 128;
    spec.micro_batch_size = 2;
    const Costs cost = stage_costs(smollm2(), spec, parts_of(30, 5, false))[1];
    const std::int64_t tokens = 256, q = 576, k = 192, c = 576, i = 1536;
    EXPECT_EQ(cost.after_forward, 4 * tokens * (c + 6 * (2 * q + 2 * k + 2 * c + 2 * i)));
    EXPECT_EQ(cost.after_backward, 4 * tokens * (c + 6 * (2 * q + 2 * k + 4 * c + 3 * i)));
    const double ratio = static_cast<double>(cost.after_backward - 4 * tokens * c) /
                         static_cast<double>(cost.after_forward - 4 * tokens * c);
    EXPECT_NEAR(ratio, 1.467, 1e-3);
}

// The step of 16,384 ranks: tp 8 x pp 16 x dp 128, of which the table has the pipeline
TEST(StageCosts, PlansLlama405BOnSixteenStagesOfEightChunks) {
    spec::TrainSpec spec;
    spec.seq_length = 8192;
    spec.micro_batch_size = 1;
    spec.precision = spec::Precision::Bf16;
    spec::ParallelSpec parallel;
    parallel.pp = 16;
    parallel.vpp = 8;
    const std::vector<Costs> costs = stage_costs(llama_405b(), spec, parts_of(126, 128, true));
    EXPECT_EQ(costs.front().forward, 0);
    const PipelineSchedule schedule = schedule_of(parallel, 16, costs).value();
    EXPECT_EQ(schedule.name, "interleaved");
    const ScheduleReport report = check(schedule, costs).value();
    EXPECT_EQ(report.live_max.front(), 8 * 16);  // the warm-up is as long as the step
    EXPECT_EQ(report.links.size(), 2U * 16);     // a ring in each direction
    EXPECT_LT(report.bubble, 15.0 / (8 * 16) + 0.02);
    EXPECT_LT(report.imbalance, 1.02);
}

}  // namespace
}  // namespace roll::plan
