// Tests ranks that share optimizer state and gradients (ZeRO) where the grid (grid_test.cpp) does
// not: few rows, frozen parameters, other types, a replay; and that each rank has only its part of
// the state.
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/worker/train/pipeline/cells.hpp"
#include "worker/train/pipeline/grad_buckets.hpp"

namespace roll::train {
namespace {

// Some ranks own no row of some parameters.
TEST(Zero, ThereMayBeMoreRanksThanRows) {
    spec::ModelConfig config = tiny_model(true);
    config.vocab = 5;
    const Named reference = train_alone(config);
    for (const int zero : {1, 2, 3})
        worst(train(config, plan::gpipe(1, 1, 1), {.dp = 8, .zero = zero}), reference);
}

// With zero 1 and without clipping, results do not depend on how the rows are shared, except norms,
// which sum over the ranks. With zero 2 and 3, sums are made in another order.
TEST(Zero, FrozenParametersAndEveryTypeTrainAsWithReplicatedState) {
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-12}, {at::kFloat, 1e-2}, {at::kBFloat16, 5e-2}};
    for (const auto& [dtype, limit] : types) {
        const plan::PipelineSchedule schedule = plan::one_forward_one_backward(2, 2);
        Cell cell{.dp = 3, .dtype = dtype, .clip = 0, .freeze = {"*layers.1.*", "*norm*"}};
        const Named reference = train(world_model(true), schedule, cell);
        for (cell.zero = 1; cell.zero <= 3; ++cell.zero) {
            const Named shared = train(world_model(true), schedule, cell);
            ASSERT_EQ(shared.size(), reference.size());
            for (const auto& [name, tensor] : reference) {
                const bool is_norm =
                    name.ends_with("grad_norm") || name.find(".norms.") != std::string::npos;
                const bool is_equal = cell.zero == 1 && !is_norm;
                EXPECT_LE(error(shared.at(name), tensor), is_equal ? 0 : limit)
                    << name << " " << dtype << " zero " << cell.zero;
            }
        }
    }
}

// The search for a bad value looks at all gradients of a micro-batch.
TEST(Zero, AReplayLeavesTheWholeGradients) {
    const plan::PipelineSchedule schedule = plan::gpipe(1, 1, 2);
    const auto replayed = [&](int zero) {
        LocalGroup alone(1), both(2);
        std::vector<at::Tensor> grads;
        const auto rank_main = [&](int rank) {
            at::set_num_threads(1);
            LocalCommunicator pp(alone, 0), dp(both, rank);
            TrainStep step(tiny_model(true), schedule, {pp, dp},
                           {.init = {.dtype = at::kDouble}, .zero = zero});
            const auto batch = tiny_batch(0, 4);
            for (int i = 0; i < 2; ++i) {
                step.run(std::span(batch).subspan(2 * rank, 2), 0);
                step.replay(batch[1]);
            }
            if (rank == 0)
                for (const at::Tensor& grad : step.chunks()[0].parameters().grad)
                    grads.push_back(grad.clone());
        };
        std::thread other(rank_main, 1);
        rank_main(0);
        other.join();
        return grads;
    };
    const std::vector<at::Tensor> reference = replayed(0);
    for (const int zero : {1, 2, 3}) {
        const std::vector<at::Tensor> grads = replayed(zero);
        for (std::size_t i = 0; i < reference.size(); ++i)
            EXPECT_TRUE(grads[i].equal(reference[i])) << i << " zero " << zero;
    }
}

// Returns the bytes of optimizer state and gradients that a rank has between two steps.
std::int64_t state_bytes(const Parameters& p, Optimizer& optimizer) {
    std::int64_t bytes = 0;
    for (const at::Tensor& flat :
         {optimizer.state().flat(kAverage), optimizer.state().flat(kSquare), p.flat_rest,
          p.flat_grad, p.flat_own_grad})
        if (flat.defined()) bytes += static_cast<std::int64_t>(flat.nbytes());
    return bytes;
}

TEST(Zero, EachRankHasItsPartOfTheStateOnly) {
    const spec::ModelConfig config = tiny_model(false);
    const auto bytes_of = [&](int owners, int owner, bool stages) {
        const Parameters p = make_parameters(
            parameter_specs(config, whole_chunk(config)),
            {.dtype = at::kBFloat16, .owners = owners, .owner = owner, .stages_gradients = stages});
        Optimizer optimizer(p);
        return state_bytes(p, optimizer);
    };
    // `count`: elements of the model; `rows`: sum over the parameters of the elements of one row
    std::int64_t count = 0, rows = 0;
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config))) {
        count += c10::multiply_integers(spec.sizes);
        rows += c10::multiply_integers(spec.sizes) / spec.sizes[0];
    }
    for (const bool stages : {false, true}) {
        // Bytes per element: two moments, half a weight and, with zero 2, the gradient are
        // shared; with zero 1, each rank has all gradients.
        const std::int64_t shared = 4 + 4 + 2 + (stages ? 4 : 0), own = stages ? 0 : 4;
        EXPECT_EQ(bytes_of(1, 0, false), count * (4 + 4 + 2 + 4));
        for (const int owners : {2, 3, 8}) {
            std::int64_t sum = 0;
            for (int owner = 0; owner < owners; ++owner) {
                const std::int64_t bytes = bytes_of(owners, owner, stages) - count * own;
                EXPECT_LE(std::abs(bytes - count * shared / owners), rows * shared)
                    << owner << " of " << owners;
                sum += bytes;
            }
            EXPECT_EQ(sum, count * shared);
        }
    }
}

TEST(Zero, FrozenParametersHaveNoStagedGradients) {
    const spec::ModelConfig config = tiny_model(false);
    Parameters p = make_parameters(parameter_specs(config, whole_chunk(config)),
                                   {.dtype = at::kDouble,
                                    .freeze = {"*linear_qkv*", "*linear_fc2*"},
                                    .owners = 2,
                                    .stages_gradients = true});
    LocalGroup both(2);
    LocalCommunicator dp(both, 0);
    GradBuckets buckets(p, 0, dp, nullptr, {});
    buckets.begin(1);
    std::int64_t own = 0, frozen = 0;
    for (int i = 0; i < std::ssize(p.specs); ++i) {
        frozen += p.specs[i].frozen ? 1 : 0;
        EXPECT_EQ(p.own_grad[i].defined(), !p.specs[i].frozen) << p.specs[i].name;
        if (!p.specs[i].frozen) own += p.own_grad[i].numel();
    }
    EXPECT_GT(frozen, 0);
    EXPECT_EQ(p.flat_own_grad.numel(), own);
    // The memory of a stage is exactly as large as the gradients of the bucket's trained
    // parameters.
    for (const plan::Bucket& bucket : buckets.buckets()) {
        std::int64_t staged = 0, room = 0;
        for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i) {
            if (p.specs[i].frozen) continue;
            buckets.open(i);
            staged += p.grad[i].numel();
            room = static_cast<std::int64_t>(p.grad[i].storage().nbytes() / sizeof(double));
        }
        EXPECT_EQ(room, staged);
    }
}

// Trains two steps of two replicas that share weights, and returns the largest number of units that
// rank 0 held at once in a pass, and the bytes of weights that it stores.
std::pair<int, std::int64_t> held_and_stored(const plan::Recomputed& recompute) {
    const plan::PipelineSchedule schedule = plan::gpipe(1, 1, 2);
    LocalGroup alone(1), both(2);
    std::pair<int, std::int64_t> result;
    const auto rank_main = [&](int rank) {
        at::set_num_threads(1);
        LocalCommunicator pp(alone, 0), dp(both, rank);
        TrainStep step(world_model(true), schedule, {pp, dp},
                       {.init = {.dtype = at::kDouble}, .zero = 3, .recompute = recompute});
        const auto batch = tiny_batch(0, 4);
        for (int i = 0; i < 2; ++i) step.run(std::span(batch).subspan(2 * rank, 2), 1e-3);
        step.evaluate(std::span(batch).subspan(2 * rank, 2));
        Chunk& chunk = step.chunks()[0];
        chunk.gathered()->check_all_free();
        if (rank == 0)
            result = {chunk.gathered()->most_held(), chunk.parameters().flat_weight.nbytes()};
    };
    std::thread other(rank_main, 1);
    rank_main(0);
    other.join();
    return result;
}

TEST(Zero, ARankThatSharesWeightsStoresItsRowsAndHoldsTwoLayersAtMost) {
    const spec::ModelConfig config = world_model(true);
    std::int64_t stored = 0;
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config))) {
        const std::int64_t size = c10::multiply_integers(spec.sizes);
        stored += spec.sizes.size() == 1
                      ? size
                      : size / spec.sizes[0] * layout::own_rows(spec.sizes[0], 2, 0).count;
    }
    plan::Recomputed all(static_cast<std::size_t>(config.layers));
    plan::set_recomputed(all, {0, config.layers}, spec::Recompute::Full, config.layers, 3);
    for (const plan::Recomputed& recompute : {plan::Recomputed{}, all})
        EXPECT_EQ(held_and_stored(recompute), std::pair(2, stored * std::int64_t{sizeof(double)}));
}

}  // namespace
}  // namespace roll::train
