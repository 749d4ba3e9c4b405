// Compares gradient accumulation with one large batch, in float64. The micro-batches have different
// numbers of targets.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/notes.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

constexpr int kMicrobatches = 6;
constexpr int kSteps = 5;
constexpr double kLimit = 1e-10;

// Returns the rows of all micro-batches as one micro-batch.
std::vector<Microbatch> joined(const std::vector<Microbatch>& batch) {
    std::vector<at::Tensor> tokens, targets;
    for (const Microbatch& data : batch) {
        tokens.push_back(data.tokens_BT);
        targets.push_back(data.targets_BT);
    }
    return {{at::cat(tokens), at::cat(targets)}};
}

// Returns losses, norms, gradients and weights of a few steps, with 6 micro-batches or, if `whole`,
// with one that has all their rows.
Named train(bool whole, bool tied, spec::Normalize normalize) {
    at::set_num_threads(1);
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, whole ? 1 : kMicrobatches);
    TrainStep trainer(tiny_model(tied), schedule, {self, self},
                      {.init = {.std = 0.2, .dtype = at::kDouble}, .normalize = normalize});
    Named seen;
    for (int step = 0; step < kSteps; ++step) {
        std::vector<Microbatch> batch = tiny_batch(step, kMicrobatches);
        if (whole) batch = joined(batch);
        const StepResult result = trainer.run(batch, 1e-2);
        const std::string prefix = std::to_string(step) + ".";
        seen[prefix + "loss"] = at::scalar_tensor(result.loss, at::kDouble);
        seen[prefix + "norm"] = at::scalar_tensor(result.grad_norm, at::kDouble);
        seen[prefix + "tokens"] =
            at::scalar_tensor(static_cast<double>(result.tokens), at::kDouble);
        note(seen, prefix, trainer);
    }
    return seen;
}

TEST(Accumulation, OverUnevenMicrobatchesIsOneBigBatch) {
    for (const bool tied : {false, true}) {
        const Named big = train(true, tied, spec::Normalize::Step);
        const Named small = train(false, tied, spec::Normalize::Step);
        ASSERT_EQ(big.size(), small.size());
        for (const auto& [name, tensor] : big) expect_close(small.at(name), tensor, name, kLimit);
    }
}

// If each micro-batch's mean loss counts equally, the gradient is the mean of the micro-batches'
// gradients.
TEST(Accumulation, ByMicrobatchIsTheMeanOfTheirMeans) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto one = plan::one_forward_one_backward(1, 1);
    Named mean;
    for (const Microbatch& data : tiny_batch(0, kMicrobatches)) {
        TrainStep trainer(tiny_model(false), one, {self, self},
                          {.init = {.std = 0.2, .dtype = at::kDouble}});
        const double loss = trainer.run(std::span(&data, 1), 0).loss;
        Named seen;
        note(seen, "0.", trainer);
        seen["0.loss"] = at::scalar_tensor(loss, at::kDouble);
        for (const auto& [name, tensor] : seen)
            mean[name] = tensor / kMicrobatches + (mean.contains(name) ? mean[name] : 0 * tensor);
    }
    const Named seen = train(false, false, spec::Normalize::Microbatch);
    // Clipping changes the gradient before it moves weights and moments, so these have no such
    // mean.
    for (const auto& [name, tensor] : mean)
        if (name == "0.loss" || name.starts_with("0.grad."))
            expect_close(seen.at(name), tensor, name, kLimit);
}

}  // namespace
}  // namespace roll::train
