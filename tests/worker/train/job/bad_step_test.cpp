// Tests that the origin of a non-finite value is found in a model with one bad value.
#include "worker/train/job/bad_step.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/comm/local_communicator.hpp"

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

}  // namespace
}  // namespace roll::train
