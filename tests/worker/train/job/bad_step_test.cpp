// Tests that the origin of a non-finite value is found in a model with one bad value.
#include "worker/train/job/bad_step.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/model/context.hpp"

namespace roll::train {
namespace {

// Returns a model whose norms divide by the root mean square without an epsilon, so that they turn
// zeros into NaN.
spec::ModelConfig model_without_eps() {
    spec::ModelConfig config = tiny_model(false);
    config.norm_eps = 0;
    return config;
}

struct Poisoned {
    LocalGroup alone{1};
    LocalCommunicator self{alone, 0};
    plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 4);
    TrainStep step{model_without_eps(), schedule, {self, self}, {.init = {.dtype = at::kDouble}}};
    std::vector<Microbatch> batch = tiny_batch(1, 4);

    Parameters& parameters() { return step.chunks()[0].parameters(); }
    at::Tensor weight(std::size_t i) { return parameters().weight[i]; }
    std::string name(std::size_t i) { return parameters().specs[i].name; }
    std::string found() {
        at::set_num_threads(1);
        const auto what = find_not_finite(step, batch);
        if (!what) return "";
        std::string told = what->what;
        for (const int microbatch : what->microbatches) told += " @" + std::to_string(microbatch);
        return told;
    }
};

TEST(NotFinite, NothingIsFoundInAHealthyModelTwice) {
    Poisoned p;
    EXPECT_EQ(p.found(), "");
    EXPECT_EQ(p.found(), "");
}

TEST(NotFinite, NamesTheFirstWeight) {
    Poisoned p;
    p.weight(7)[0] = NAN;
    p.weight(3)[0][0] = INFINITY;
    EXPECT_EQ(p.found(), "the weight " + p.name(3));
}

// Only the third micro-batch has this token. The norm of the token's embedding is not finite.
TEST(NotFinite, NamesTheMicrobatchOfABadSample) {
    Poisoned p;
    constexpr std::int64_t kToken = 52;
    for (const Microbatch& data : p.batch) data.tokens_BT.clamp_(0, kToken - 1);
    p.batch[2].tokens_BT[1][4] = kToken;
    p.weight(0)[kToken].zero_();
    EXPECT_EQ(p.found(), "the loss, then the gradient of output_layer.weight @2");
    p.batch[3].tokens_BT[0][1] = kToken;
    EXPECT_EQ(p.found(), "the loss, then the gradient of output_layer.weight @2 @3");
}

// Returns what find_not_finite() finds on each of four ranks: cp 2, dp 2 and a bad weight on
// rank 2.
std::vector<std::string> found_with_context_parallelism() {
    std::vector<std::string> told(4);
    const plan::Mesh mesh = plan::Mesh::make({.dp = 2, .cp = 2}, 4).value();
    LocalFabric fabric(4, {.seed = 1});
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const c10::InferenceMode no_autograd;
        const auto group = [&](const char* name, const std::vector<int>& ranks) {
            return fabric.group(name + std::to_string(ranks.front()), ranks, rank);
        };
        const auto pp = group("pp", {rank}), dp = group("dp", mesh.replicas(rank)),
                   cp = group("cp", mesh.group(rank, plan::Axis::Cp)), world = fabric.world(rank);
        TrainStep step(tiny_model(false), plan::gpipe(1, 1, 2),
                       {.pp = *pp, .dp = *dp, .world = world.get(), .cp = cp.get()},
                       {.init = {.dtype = at::kDouble}});
        if (rank == 2) step.chunks()[0].parameters().weight[3][0][0] = NAN;
        const auto found = find_not_finite(step, context_parts(tiny_batch(1, 2), cp.get()));
        told[static_cast<std::size_t>(rank)] = found ? "bad: " + found->what : "finite";
    });
    return told;
}

TEST(NotFinite, ABadWeightIsOnlyThatOfTheRanksThatShareItsSequences) {
    EXPECT_EQ(found_with_context_parallelism(),
              (std::vector<std::string>{"finite", "finite", "bad: the weight " + Poisoned().name(3),
                                        "bad: "}));
}

}  // namespace
}  // namespace roll::train
