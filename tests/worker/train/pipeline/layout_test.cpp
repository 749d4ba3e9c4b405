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
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

constexpr int kMicrobatches = 8, kSteps = 3;
// chosen so that the gradient norm exceeds kClip in every step
constexpr double kClip = 0.3, kStd = 0.2;

std::vector<Microbatch> make_batch(int step) { return tiny_batch(step, kMicrobatches); }

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

// Trains dp * pp ranks as threads and returns their final state.
Named train(const plan::PipelineSchedule& schedule, int dp, bool tied) {
    EXPECT_TRUE(plan::check(schedule));
    std::deque<LocalGroup> pp_groups, dp_groups, tie_groups;
    for (int d = 0; d < dp; ++d) pp_groups.emplace_back(schedule.pp), tie_groups.emplace_back(2);
    for (int p = 0; p < schedule.pp; ++p) dp_groups.emplace_back(dp);
    std::mutex mutex;
    Named seen;
    auto rank_main = [&](int d, int p) {
        at::set_num_threads(1);
        LocalCommunicator pp(pp_groups[d], p), dp_comm(dp_groups[p], d);
        LocalCommunicator tie(tie_groups[d], p == 0 ? 0 : 1);
        const bool at_end = tied && schedule.pp > 1 && (p == 0 || p == schedule.pp - 1);
        TrainStep trainer(tiny_model(tied), schedule, {pp, dp_comm, at_end ? &tie : nullptr},
                          {.init = {.std = kStd, .dtype = at::kDouble},
                           .clip_grad = kClip,
                           .count_zeros = true,
                           .bucket_numel = 2000});
        for (int step = 0; step < kSteps; ++step) {
            const auto batch = make_batch(step);
            const StepResult result = trainer.run(
                std::span(batch).subspan(d * schedule.microbatches, schedule.microbatches), 1e-3);
            const std::lock_guard lock(mutex);
            if (d == dp - 1) note_step(seen, step, trainer, result);
        }
        const auto held_out = make_batch(kSteps);
        const LossSum valid = trainer.evaluate(
            std::span(held_out).subspan(d * schedule.microbatches, schedule.microbatches));
        if (d > 0 || p > 0) return;  // one rank is enough, because all ranks have the same values
        const std::lock_guard lock(mutex);
        seen["valid.loss"] = at::scalar_tensor(valid.loss, at::kDouble);
        seen["valid.tokens"] = at::scalar_tensor(valid.tokens, at::kDouble);
    };
    std::vector<std::thread> ranks;
    for (int d = 0; d < dp; ++d)
        for (int p = 0; p < schedule.pp; ++p) ranks.emplace_back(rank_main, d, p);
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

TEST(Layout, EveryLayoutTrainsAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const Named reference = train(plan::one_forward_one_backward(1, kMicrobatches), 1, tied);
        for (const int dp : {1, 2}) {
            for (const int pp : {1, 2, 4}) {
                const int m = kMicrobatches / dp;
                const double errors[] = {
                    worst(train(plan::gpipe(pp, 1, m), dp, tied), reference),
                    worst(train(plan::one_forward_one_backward(pp, m), dp, tied), reference),
                    worst(train(plan::interleaved(pp, 2, m).value(), dp, tied), reference),
                    worst(train(plan::zero_bubble_h1(pp, m), dp, tied), reference)};
                std::printf(
                    "tied %d dp %d pp %d: gpipe %.1e 1f1b %.1e interleaved %.1e zero-bubble %.1e\n",
                    tied, dp, pp, errors[0], errors[1], errors[2], errors[3]);
            }
        }
    }
}

// Each stage draws only its own parameters, not the whole model.
TEST(Layout, EveryStageStartsFromTheBitsOfTheWholeModel) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = tiny_model(tied);
        const auto drawn = [&](int stage, int stages) {
            const Parameters p =
                make_parameters(parameter_specs(config, split_layers(config, stage, stages)),
                                {.seed = 5, .std = 0.1, .dtype = at::kFloat});
            Named named;
            for (std::size_t i = 0; i < p.specs.size(); ++i)
                named[p.specs[i].name] = p.weight[i].clone();
            return named;
        };
        const Named whole = drawn(0, 1);
        for (const int stages : {2, 3}) {
            Named joined;
            for (int stage = 0; stage < stages; ++stage) joined.merge(drawn(stage, stages));
            ASSERT_EQ(joined.size(), whole.size());
            for (const auto& [name, tensor] : whole) EXPECT_TRUE(joined.at(name).equal(tensor));
        }
    }
}

}  // namespace
}  // namespace roll::train
