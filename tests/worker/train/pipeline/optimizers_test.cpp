// Tests that every rule of the update trains in every layout as on one rank, in float64 to 1e-10.
// Muon's matrices are collected from all ranks that share them.
#include <array>
#include <cmath>

#include <ATen/ATen.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/cells.hpp"
#include "worker/train/pipeline/layer_norms.hpp"

namespace roll::train {
namespace {

using spec::OptimizerKind;

spec::OptimizerSpec options_of(OptimizerKind kind) {
    const bool has_momentum = kind == OptimizerKind::Sgd || kind == OptimizerKind::Muon;
    return {.weight_decay = 0.2,
            .decays = {},
            .kind = kind,
            .momentum = has_momentum ? 0.9 : 0,
            .nesterov = has_momentum,
            .groups = {{.globs = {"*linear_fc2*", "embedding.*"},
                        .lr = std::nullopt,
                        .lr_scale = 3,
                        .weight_decay = 0}},
            .adafactor = {.scale_parameter = true}};
}

// The gradient of a key's bias is 0 but for rounding, of which Lion takes the sign. Adafactor
// divides it by its own size.
spec::ModelConfig model_of(OptimizerKind kind, bool tied) {
    spec::ModelConfig config = split_model(tied);
    config.qkv_bias = kind != OptimizerKind::Lion && kind != OptimizerKind::Adafactor;
    // Matrices large enough for 8-bit states, whose blocks cross the borders of rows and ranks
    if (kind == OptimizerKind::AdamW8bit) config.intermediate = 600;
    return config;
}

double worst_of(const Named& seen, const Named& reference) {
    EXPECT_EQ(seen.size(), reference.size());
    double result = 0;
    for (const auto& [name, tensor] : reference) {
        expect_close(seen.at(name), tensor, name, 1e-10);
        result = std::max(result, error(seen.at(name), tensor));
    }
    return result;
}

TEST(Optimizers, EveryLayoutTrainsAsOneRankDoes) {
    const int m = kMicrobatches;
    for (const auto& [name, kind] : spec::kOptimizerKinds) {
        SCOPED_TRACE(name);
        const bool tied = kind == OptimizerKind::Muon;
        const spec::ModelConfig config = model_of(kind, tied);
        const auto cell = [&](int dp, int tp, int zero = 0, bool sequence = false) {
            return Cell{.dp = dp,
                        .tp = tp,
                        .zero = zero,
                        .sequence = sequence,
                        .optimizer = options_of(kind)};
        };
        const Named reference = train(config, plan::gpipe(1, 1, m), cell(1, 1));
        std::vector<double> errors;
        const auto compare = [&](const plan::PipelineSchedule& schedule, const Cell& layout) {
            errors.push_back(worst_of(train(config, schedule, layout), reference));
        };
        compare(plan::interleaved(2, 2, m / 2), cell(2, 2, 1, true));
        compare(plan::gpipe(1, 1, m / 4), cell(4, 1, 2));
        if (kind == OptimizerKind::Adafactor || kind == OptimizerKind::AdamW8bit)
            compare(plan::gpipe(1, 1, m / 2), cell(2, 2, 3));
        if (kind == OptimizerKind::Muon) {
            compare(plan::one_forward_one_backward(1, m / 2), cell(2, 1));
            compare(plan::gpipe(1, 1, m / 2), cell(2, 2, 3));
            compare(plan::gpipe(1, 1, m), cell(1, 4));
            compare(plan::zero_bubble_h1(2, m / 2), cell(2, 4));
            compare(plan::zero_bubble_h1(2, m / 2), cell(2, 2, 2));
        }
        std::printf("%-5s worst %.1e\n", std::string(name).c_str(),
                    *std::ranges::max_element(errors));
    }
}

// The norms of each layer are those of its whole tensors, in a layout that divides all of them. A
// tied embedding counts once.
TEST(LayerNorms, AreThoseOfTheTensorsOfTheLayer) {
    const int m = kMicrobatches;
    const Named seen = train(split_model(true), plan::interleaved(2, 2, m / 2),
                             Cell{.dp = 2, .tp = 2, .zero = 1, .sequence = true});
    std::map<std::string, std::array<double, 3>> sums;
    double all = 0;
    const auto squares = [](const at::Tensor& values) {
        return values.to(at::kDouble).square().sum().item<double>();
    };
    for (const auto& [name, before] : seen) {
        if (!name.starts_with("0.weight.")) continue;
        const std::string parameter = name.substr(std::string("0.weight.").size());
        auto& [grad, weight, update] = sums[layer_of(parameter)];
        grad += squares(seen.at("1.grad." + parameter));
        weight += squares(before);
        update += squares(seen.at("1.weight." + parameter) - before);
    }
    ASSERT_EQ(sums.size(), static_cast<std::size_t>(split_model(true).layers) + 2)
        << "the layers, the embedding and the last norm";
    EXPECT_TRUE(sums.contains("embedding") && sums.contains("layer_0") &&
                sums.contains("final_layernorm"));
    for (const auto& [layer, expected] : sums) {
        const auto norm = [&, prefix = "1.norms." + layer](const char* kind) {
            return seen.at(prefix + kind).item<double>();
        };
        EXPECT_NEAR(norm(".grad"), std::sqrt(expected[0]), 1e-12) << layer;
        EXPECT_NEAR(norm(".weight"), std::sqrt(expected[1]), 1e-10) << layer;
        EXPECT_NEAR(norm(".update"), std::sqrt(expected[2]), 1e-12) << layer;
        all += expected[0];
    }
    EXPECT_NEAR(seen.at("1.grad_norm").item<double>(), std::sqrt(all), 1e-12);
}

// LoRA's factors are matrices, of which tensor-parallel ranks share some and copy others.
TEST(Optimizers, MuonTrainsLoraInEveryLayoutAsOneRankDoes) {
    spec::ModelConfig config = split_model(false);
    config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}, {"lr_ratio", 4}});
    const auto cell = [](int dp, int tp, int zero) {
        return Cell{.dp = dp,
                    .tp = tp,
                    .zero = zero,
                    .clip = 0,
                    .optimizer = options_of(OptimizerKind::Muon)};
    };
    const int m = kMicrobatches;
    const Named reference = train(config, plan::gpipe(1, 1, m), cell(1, 1, 0));
    worst_of(train(config, plan::gpipe(1, 1, m), cell(1, 2, 0)), reference);
    worst_of(train(config, plan::gpipe(1, 1, m / 2), cell(2, 2, 1)), reference);
}

}  // namespace
}  // namespace roll::train
