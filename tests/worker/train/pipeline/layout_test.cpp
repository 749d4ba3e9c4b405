// Tests that every layout trains like one rank that executes the same micro-batches. Compares the
// loss, gradient norm and zeros, the clip factor, all gradients and all weights after each of three
// steps, and then the loss of other data. Computes in float64, and compares to 1e-12. Compares both
// copies of a tied embedding. Clipping acts in every step.
#include <thread>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/pipeline_check.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

constexpr int kMicrobatches = 8, kSteps = 3;
// chosen so that the gradient norm exceeds kClip in every step
constexpr double kClip = 0.3, kStd = 0.2;

// Returns a model whose layers divide into 4 stages of 2 chunks.
spec::ModelConfig model(bool tied) {
    spec::ModelConfig config = tiny_model(tied);
    config.layers = 8;
    return config;
}

// Returns the micro-batches of a step, whose tokens are below `vocab`.
std::vector<Microbatch> make_batch(int step, std::int64_t vocab) {
    std::vector<Microbatch> batch = tiny_batch(step, kMicrobatches);
    for (Microbatch& data : batch) {
        data.tokens_BT.remainder_(vocab);
        const at::Tensor targets_BT = data.targets_BT.remainder(vocab);
        data.targets_BT = targets_BT.masked_fill(data.targets_BT.eq(ops::kIgnored), ops::kIgnored);
    }
    return batch;
}

// Returns a model whose heads and intermediate size 4 divides, but not its vocabulary. Tied models
// also have the features of gemma.
spec::ModelConfig split_model(bool tied) {
    spec::ModelConfig config = tiny_model(tied);
    config.heads = 8;
    config.kv_heads = 4;
    config.qkv_bias = config.out_bias = config.qk_norm = true;
    if (!tied) return config;
    config.post_norms = config.norm_adds_one = true;
    config.embedding_scale = 4;
    config.logit_soft_cap = 5;
    config.activation = spec::Activation::GeluTanh;
    return config;
}

// Records a step. Called by each stage; every stage reports the same numbers for the whole model.
void note_step(Named& seen, int step, TrainStep& trainer, const StepResult& result) {
    const std::string prefix = std::to_string(step) + ".";
    const std::pair<const char*, double> numbers[] = {
        {"loss", result.loss},
        {"grad_norm", result.grad_norm},
        {"clip_factor", result.clip_factor},
        {"grad_zeros", static_cast<double>(result.grad_zeros.value_or(-1))}};
    for (const auto& [name, number] : numbers)
        note_one(seen, prefix + name, at::scalar_tensor(number, at::kDouble));
    EXPECT_LT(result.clip_factor, 1);
    note(seen, prefix, trainer);
}

// Trains dp * pp * tp ranks as threads and returns their final state.
Named train(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule, int dp,
            int tp = 1, bool sequence = false) {
    EXPECT_TRUE(plan::check(schedule));
    std::deque<LocalGroup> pp_groups, dp_groups, tie_groups, tp_groups;
    for (int i = 0; i < dp * tp; ++i) pp_groups.emplace_back(schedule.pp);
    for (int i = 0; i < dp * tp; ++i) tie_groups.emplace_back(2);
    for (int i = 0; i < schedule.pp * tp; ++i) dp_groups.emplace_back(dp);
    for (int i = 0; i < schedule.pp * dp; ++i) tp_groups.emplace_back(tp);
    std::mutex mutex;
    Named seen;
    auto rank_main = [&](int d, int p, int t) {
        at::set_num_threads(1);
        LocalCommunicator pp(pp_groups[d * tp + t], p), dp_comm(dp_groups[p * tp + t], d);
        LocalCommunicator tie(tie_groups[d * tp + t], p == 0 ? 0 : 1);
        LocalCommunicator tp_comm(tp_groups[p * dp + d], t);
        const bool at_end = config.tied && schedule.pp > 1 && (p == 0 || p == schedule.pp - 1);
        TrainStep trainer(config, schedule, {pp, dp_comm, at_end ? &tie : nullptr, &tp_comm},
                          {.init = {.std = kStd, .dtype = at::kDouble},
                           .clip_grad = kClip,
                           .count_zeros = true,
                           .sequence = sequence,
                           .bucket_numel = 2000});
        for (int step = 0; step < kSteps; ++step) {
            const auto batch = make_batch(step, config.vocab);
            const StepResult result = trainer.run(
                std::span(batch).subspan(d * schedule.microbatches, schedule.microbatches), 1e-3);
            const std::lock_guard lock(mutex);
            if (d == dp - 1) note_step(seen, step, trainer, result);
        }
        const auto held_out = make_batch(kSteps, config.vocab);
        const LossSum valid = trainer.evaluate(
            std::span(held_out).subspan(d * schedule.microbatches, schedule.microbatches));
        if (d > 0 || p > 0 || t > 0)
            return;  // one rank is enough, because all ranks have the same values
        const std::lock_guard lock(mutex);
        seen["valid.loss"] = at::scalar_tensor(valid.loss, at::kDouble);
        seen["valid.tokens"] = at::scalar_tensor(valid.tokens, at::kDouble);
    };
    std::vector<std::thread> ranks;
    for (int d = 0; d < dp; ++d)
        for (int p = 0; p < schedule.pp; ++p)
            for (int t = 0; t < tp; ++t) ranks.emplace_back(rank_main, d, p, t);
    for (std::thread& rank : ranks) rank.join();
    return seen;
}

double worst(const Named& seen, const Named& reference) {
    EXPECT_EQ(seen.size(), reference.size());
    double result = 0;
    for (const auto& [name, tensor] : reference) {
        expect_close(seen.at(name), tensor, name);
        result = std::max(result, error(seen.at(name), tensor));
    }
    return result;
}

Named train_alone(const spec::ModelConfig& config) {
    return train(config, plan::one_forward_one_backward(1, kMicrobatches), 1);
}

TEST(Layout, EveryLayoutTrainsAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = model(tied);
        const Named reference = train_alone(config);
        for (const int dp : {1, 2}) {
            for (const int pp : {1, 2, 4}) {
                const int m = kMicrobatches / dp;
                const double errors[] = {
                    worst(train(config, plan::gpipe(pp, 1, m), dp), reference),
                    worst(train(config, plan::one_forward_one_backward(pp, m), dp), reference),
                    worst(train(config, plan::interleaved(pp, 2, m), dp), reference),
                    worst(train(config, plan::zero_bubble_h1(pp, m), dp), reference)};
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
        const spec::ModelConfig config = model(tied);
        const Named reference = train_alone(config);
        for (const int dp : {1, 2}) {
            for (const int pp : {1, 2, 4}) {
                const int m = kMicrobatches / dp;
                const double errors[] = {
                    worst(train(config, plan::zero_bubble_v(pp, m), dp), reference),
                    worst(train(config, plan::gpipe(pp, 2, m, plan::Placement::V), dp), reference)};
                std::printf("tied %d dp %d pp %d: zero-bubble V %.1e gpipe %.1e\n", tied, dp, pp,
                            errors[0], errors[1]);
            }
        }
        const plan::PipelineSchedule dual = plan::dual_pipe_v(4, kMicrobatches).value();
        worst(train(config, dual, 1), reference);
        const plan::PipelineSchedule grouped = plan::interleaved(2, 4, kMicrobatches, 3);
        worst(train(config, grouped, 1), reference);
        worst(train(split_model(tied), plan::zero_bubble_v(1, kMicrobatches), 1, 2),
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
                worst(train(config, plan::gpipe(1, 1, m), 1, tp), reference),
                worst(train(config, plan::zero_bubble_h1(2, m), 1, tp), reference),
                worst(train(config, plan::interleaved(2, 2, m / 2), 2, tp), reference)};
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
            const double errors[] = {
                worst(train(config, plan::gpipe(1, 1, m), 1, tp, true), reference),
                worst(train(config, plan::zero_bubble_h1(2, m), 1, tp, true), reference),
                worst(train(config, plan::interleaved(2, 2, m / 2).value(), 2, tp, true),
                      reference)};
            std::printf("tied %d tp %d, sequence: alone %.1e pp 2 %.1e pp 2 dp 2 %.1e\n", tied, tp,
                        errors[0], errors[1], errors[2]);
        }
    }
}

// SmolLM2's heads
TEST(Layout, NineHeadsInThreeGroupsTrainOnThreeRanks) {
    spec::ModelConfig config = model(true);
    config.heads = 9;
    config.kv_heads = 3;
    config.intermediate = 39;
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(2, kMicrobatches);
    const Named reference = train_alone(config);
    for (const bool sequence : {false, true})
        worst(train(config, schedule, 1, 3, sequence), reference);
}

TEST(Layout, ARankMayHaveNoTokenOfTheVocabulary) {
    spec::ModelConfig config = split_model(false);
    config.vocab = 5;  // 2, 2, 1 and 0 tokens
    const plan::PipelineSchedule schedule = plan::gpipe(1, 1, kMicrobatches);
    const Named reference = train_alone(config);
    for (const bool sequence : {false, true})
        worst(train(config, schedule, 1, 4, sequence), reference);
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
