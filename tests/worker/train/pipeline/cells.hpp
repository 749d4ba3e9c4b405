// Trains a tiny model in any layout, with ranks that are threads, for tests that compare layouts.
// Computes in float64 unless a cell says otherwise. Clipping acts in every step, unless it is off.
#pragma once

#include <cmath>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/pipeline_check.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

inline constexpr int kMicrobatches = 8, kSteps = 3;
// chosen so that the gradient norm exceeds kClip in every step
inline constexpr double kClip = 0.3, kStd = 0.2;

// Returns a model whose layers divide into 4 stages of 2 chunks.
inline spec::ModelConfig model(bool tied) {
    spec::ModelConfig config = tiny_model(tied);
    config.layers = 8;
    return config;
}

// Returns the micro-batches of a step, whose tokens are below `vocab`.
inline std::vector<Microbatch> make_batch(int step, std::int64_t vocab, int microbatches) {
    std::vector<Microbatch> batch = tiny_batch(step, microbatches);
    for (Microbatch& data : batch) {
        data.tokens_BT.remainder_(vocab);
        const at::Tensor targets_BT = data.targets_BT.remainder(vocab);
        data.targets_BT = targets_BT.masked_fill(data.targets_BT.eq(ops::kIgnored), ops::kIgnored);
    }
    return batch;
}

// Returns a model whose heads and intermediate size 4 divides, but not its vocabulary. Tied models
// also have the features of gemma.
inline spec::ModelConfig split_model(bool tied) {
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
inline void note_step(Named& seen, int step, TrainStep& trainer, const StepResult& result) {
    const std::string prefix = std::to_string(step) + ".";
    const std::pair<const char*, double> numbers[] = {
        {"loss", result.loss},
        {"grad_norm", result.grad_norm},
        {"clip_factor", result.clip_factor},
        {"grad_zeros", static_cast<double>(result.grad_zeros.value_or(-1))}};
    for (const auto& [name, number] : numbers)
        note_one(seen, prefix + name, at::scalar_tensor(number, at::kDouble));
    note(seen, prefix, trainer);
}

struct Cell {
    int dp = 1, tp = 1, zero = 0;
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    at::ScalarType dtype = at::kDouble;
    double clip = kClip;  // 0: no clipping
    std::vector<std::string> freeze = {};
};

// Trains dp * pp * tp ranks as threads and returns their final state.
inline Named train(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
                   const Cell& cell = {}) {
    const int dp = cell.dp, tp = cell.tp;
    const int microbatches = dp * schedule.microbatches;
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
                          {.init = {.std = kStd, .dtype = cell.dtype, .freeze = cell.freeze},
                           .clip_grad = cell.clip,
                           .count_zeros = true,
                           .sequence = cell.sequence,
                           .zero = cell.zero,
                           .bucket_numel = 2000});
        for (int step = 0; step < kSteps; ++step) {
            const auto batch = make_batch(step, config.vocab, microbatches);
            const StepResult result = trainer.run(
                std::span(batch).subspan(d * schedule.microbatches, schedule.microbatches), 1e-3);
            const std::lock_guard lock(mutex);
            EXPECT_EQ(result.clip_factor<1, cell.clip> 0);
            note_step(seen, step, trainer, result);
        }
        const auto held_out = make_batch(kSteps, config.vocab, microbatches);
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

inline double worst(const Named& seen, const Named& reference) {
    EXPECT_EQ(seen.size(), reference.size());
    double result = 0;
    for (const auto& [name, tensor] : reference) {
        expect_close(seen.at(name), tensor, name);
        result = std::max(result, error(seen.at(name), tensor));
    }
    return result;
}

inline Named train_alone(const spec::ModelConfig& config, int microbatches = kMicrobatches) {
    return train(config, plan::one_forward_one_backward(1, microbatches));
}

}  // namespace roll::train
