// Tests that ranks that share optimizer state (ZeRO) train like one rank, and that each has its
// part of that state only. Compares as layout_test does.
#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

TEST(Zero, SharedOptimizerStateTrainsAsOneRankDoes) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = model(tied);
        for (const int dp : {2, 3, 4}) {
            const int microbatches = dp == 3 ? 12 : 8, m = microbatches / dp;
            const Named reference = train_alone(config, microbatches);
            const Cell cell{.dp = dp, .zero = 1};
            const double errors[] = {
                worst(train(config, plan::gpipe(1, 1, m), cell), reference),
                worst(train(config, plan::zero_bubble_h1(2, m), cell), reference),
                worst(train(config, plan::interleaved(2, 2, m).value(), cell), reference)};
            std::printf("tied %d zero 1 dp %d: pp 1 %.1e pp 2 %.1e vpp 2 %.1e\n", tied, dp,
                        errors[0], errors[1], errors[2]);
        }
    }
}

TEST(Zero, TensorParallelRanksShareOptimizerStateToo) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = split_model(tied);
        const Named reference = train_alone(config);
        for (const int tp : {2, 4}) {
            const Cell cell{.dp = 2, .tp = tp, .zero = 1};
            worst(train(config, plan::gpipe(1, 1, 4), cell), reference);
            if (tp == 2)
                worst(train(config, plan::one_forward_one_backward(2, 4), cell), reference);
        }
    }
}

// A rank that owns no row of some parameters.
TEST(Zero, ThereMayBeMoreRanksThanRows) {
    spec::ModelConfig config = tiny_model(true);
    config.vocab = 5;
    const Named reference = train_alone(config);
    worst(train(config, plan::gpipe(1, 1, 1), {.dp = 8, .zero = 1}), reference);
}

// Without clipping no sum over ranks depends on how the rows are shared.
TEST(Zero, EveryBitIsThatOfReplicatedState) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const plan::PipelineSchedule schedule = plan::one_forward_one_backward(2, 2);
        Cell cell{.dp = 3, .dtype = dtype, .clip = 0, .freeze = {"*layers.1.*"}};
        const Named reference = train(model(true), schedule, cell);
        cell.zero = 1;
        const Named shared = train(model(true), schedule, cell);
        ASSERT_EQ(shared.size(), reference.size());
        for (const auto& [name, tensor] : reference) {
            const bool is_sum = name.ends_with("grad_norm");
            EXPECT_TRUE(is_sum || shared.at(name).equal(tensor)) << name << " " << dtype;
        }
    }
}

// Returns the bytes of moments and of main weights besides the weights that a rank has.
std::int64_t state_bytes(const Parameters& p, AdamW& optimizer) {
    const AdamWState& state = optimizer.state();
    const auto bytes =
        static_cast<std::int64_t>(state.flat_average.nbytes() + state.flat_square.nbytes());
    return bytes + (p.flat_rest.defined() ? static_cast<std::int64_t>(p.flat_rest.nbytes()) : 0);
}

TEST(Zero, EachRankHasItsPartOfTheStateOnly) {
    const spec::ModelConfig config = tiny_model(false);
    const auto bytes_of = [&](int owners, int owner) {
        const Parameters p =
            make_parameters(parameter_specs(config, whole_chunk(config)),
                            {.dtype = at::kBFloat16, .owners = owners, .owner = owner});
        AdamW optimizer(p, {});
        return state_bytes(p, optimizer);
    };
    const std::int64_t whole = bytes_of(1, 0);
    std::int64_t rows = 0;  // bytes of a row of each parameter: two moments and a rest
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config)))
        rows += (2 * 4 + 2) * c10::multiply_integers(spec.sizes) / spec.sizes[0];
    for (const int owners : {2, 3, 8}) {
        std::int64_t sum = 0;
        for (int owner = 0; owner < owners; ++owner) {
            const std::int64_t bytes = bytes_of(owners, owner);
            EXPECT_LE(std::abs(bytes - whole / owners), rows) << owner << " of " << owners;
            sum += bytes;
        }
        EXPECT_EQ(sum, whole);
    }
}

}  // namespace
}  // namespace roll::train
