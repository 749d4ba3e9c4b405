// A hundred updates beside torch.optim's AdamW, with the same gradients, rates and rule of decay.
#include "worker/train/optim/adamw.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include "tests/worker/train/tiny_model.hpp"

namespace roll::train {
namespace {

constexpr int kSteps = 100;
const AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

double rate(int step) { return 1e-3 * (1 + step % 7); }

torch::optim::AdamW torchs(const std::vector<at::Tensor>& weights) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const bool decays : {true, false}) {
        std::vector<at::Tensor> part;
        for (const at::Tensor& weight : weights)
            if ((weight.dim() > 1) == decays) part.push_back(weight);
        auto options = std::make_unique<torch::optim::AdamWOptions>(1e-3);
        options->betas({kOptions.beta1, kOptions.beta2});
        options->eps(kOptions.eps).weight_decay(decays ? kOptions.weight_decay : 0);
        groups.emplace_back(part, std::move(options));
    }
    return torch::optim::AdamW(groups);
}

// Ours and torch's weights after the same hundred updates, all in one.
std::pair<at::Tensor, at::Tensor> trained(at::ScalarType dtype) {
    at::manual_seed(3);
    const spec::ModelConfig config = tiny_model(false);
    Parameters ours = make_parameters(parameter_specs(config, split_layers(config, 0, 1)),
                                      {.seed = 5, .dtype = dtype});
    std::vector<at::Tensor> theirs;
    for (const at::Tensor& weight : ours.main)
        theirs.push_back(weight.clone().requires_grad_(true));
    AdamW mine(ours, kOptions);
    torch::optim::AdamW reference = torchs(theirs);
    for (int step = 0; step < kSteps; ++step) {
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            ours.grad[i].normal_(0, step % 10 == 0 ? 10.0 : 0.1);
            theirs[i].mutable_grad() = ours.grad[i].clone();
        }
        for (auto& group : reference.param_groups()) group.options().set_lr(rate(step));
        reference.step();
        mine.step(rate(step), 1);
    }
    std::vector<at::Tensor> flat;
    for (const at::Tensor& weight : theirs) flat.push_back(weight.detach().flatten());
    return {ours.flat_main, at::cat(flat)};
}

TEST(AdamW, AHundredUpdatesInDoubleAreTorchs) {
    const auto [ours, theirs] = trained(at::kDouble);
    const double worst = ((ours - theirs).abs().max() / theirs.abs().max()).item<double>();
    std::printf("float64: worst %.1e\n", worst);
    EXPECT_LT(worst, 1e-12);
}

// Sums of a hundred roundings: near to 0 they are many units of a weight's own last place.
TEST(AdamW, AHundredUpdatesInFloatAreTorchsToTheLargestWeightsLastPlace) {
    const auto [ours, theirs] = trained(at::kFloat);
    const double largest = theirs.abs().max().item<double>();
    const double ulp = std::exp2(std::floor(std::log2(largest)) - 23);
    const double worst = (ours.to(at::kDouble) - theirs.to(at::kDouble)).abs().max().item<double>();
    std::printf("float32: worst %.2f units in the last place of %.2f\n", worst / ulp, largest);
    EXPECT_LE(worst, ulp);
}

}  // namespace
}  // namespace roll::train
