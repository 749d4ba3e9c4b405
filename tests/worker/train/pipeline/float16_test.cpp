// Trains with float16 weights, float32 main weights and a scaled loss, in several layouts.
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/prove/record.hpp"

namespace roll::train {
namespace {

struct Layout {
    const char* name;
    int dp = 1, tp = 1, pp = 1, zero = 0;
};

constexpr Layout kLayouts[] = {{.name = "one rank"},
                               {.name = "dp 2", .dp = 2},
                               {.name = "tp 2", .tp = 2},
                               {.name = "pp 2", .pp = 2},
                               {.name = "zero 1", .dp = 2, .zero = 1},
                               {.name = "zero 2", .dp = 2, .tp = 2, .zero = 2},
                               {.name = "zero 3", .dp = 2, .pp = 2, .zero = 3}};

struct Step {
    double scale;
    bool overflows = false;  // true: a gradient of the last rank becomes infinite
};

constexpr int kMicrobatchesOfAll = 4;

// Trains one step for each entry of `steps`, all on the same batch.
Record train(const Layout& layout, const std::vector<Step>& steps) {
    const spec::ModelConfig config = tiny_model(false);
    const plan::PipelineSchedule schedule =
        plan::one_forward_one_backward(layout.pp, kMicrobatchesOfAll / layout.dp);
    const int ranks = layout.dp * layout.tp * layout.pp;
    const plan::Mesh mesh =
        need(plan::Mesh::make({.dp = layout.dp, .tp = layout.tp, .pp = layout.pp}, ranks));
    LocalFabric fabric(ranks);
    Record record;  // needs no lock, because one rank runs at a time
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const auto group = [&](const char* name, plan::Axis axis) {
            const std::vector<int> members = mesh.group(rank, axis);
            return fabric.group(name + std::to_string(members.front()), members, rank);
        };
        const auto pp = group("pp", plan::Axis::Pp), dp = group("dp", plan::Axis::Dp),
                   tp = group("tp", plan::Axis::Tp);
        const auto world = fabric.world(rank);
        bool overflows = false;
        TrainStep* trained = nullptr;
        const auto at_phase = [&](spec::FaultPhase phase) {
            if (!overflows || rank != ranks - 1 || phase != spec::FaultPhase::Reduce) return;
            at::Tensor grad = trained->chunks().back().parameters().grad.back();
            grad.view(-1)[3] = std::numeric_limits<double>::infinity();
        };
        TrainStep trainer(config, schedule,
                          {*pp, *dp, nullptr, tp.get(), nullptr, at_phase, world.get()},
                          {.init = {.std = 0.2, .dtype = at::kHalf}, .zero = layout.zero});
        trained = &trainer;
        const auto batch = tiny_batch(0, kMicrobatchesOfAll);
        const auto own =
            std::span(batch).subspan(dp->rank() * schedule.microbatches, schedule.microbatches);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            overflows = steps[i].overflows;
            const StepResult result = trainer.run(own, 1e-2, steps[i].scale);
            const std::string prefix = std::to_string(i) + ".";
            note_result(record, prefix, result);
            note_number(record, prefix + "updated", result.updated ? 1 : 0);
            if (!overflows) note_state(record, prefix, trainer);
        }
    });
    EXPECT_TRUE(record.unequal.empty()) << layout.name << ": " << record.unequal.front().name;
    return record;
}

double number(const Record& record, const std::string& name) {
    return record.values.at(name).item<double>();
}

// A step whose gradient overflows on one rank changes nothing on any rank: the next step has the
// bits that it has without the step that overflowed.
TEST(Float16, AnOverflowOnOneRankSkipsTheStepOnAll) {
    for (const Layout& layout : kLayouts) {
        SCOPED_TRACE(layout.name);
        const Record bad = train(layout, {{4096}, {4096, true}, {2048}});
        const Record good = train(layout, {{4096}, {2048}});
        EXPECT_EQ(number(bad, "0.updated"), 1);
        EXPECT_EQ(number(bad, "1.updated"), 0);
        EXPECT_EQ(number(bad, "2.updated"), 1);
        EXPECT_TRUE(std::isfinite(number(bad, "1.loss")));
        EXPECT_FALSE(std::isfinite(number(bad, "1.grad_norm")));
        for (const auto& [name, tensor] : good.values) {
            const std::string same = name[0] == '1' ? "2" + name.substr(1) : name;
            EXPECT_TRUE(tensor.equal(bad.values.at(same))) << name;
        }
    }
}

TEST(Float16, EveryLayoutTrainsAlike) {
    const Record alone = train(kLayouts[0], {{1024}, {1024}});
    for (const Layout& layout : kLayouts) {
        const Record record = train(layout, {{1024}, {1024}});
        for (const char* name : {"0.loss", "1.loss", "0.grad_norm", "1.grad_norm"})
            EXPECT_NEAR(number(record, name), number(alone, name), 1e-2 * number(alone, name))
                << layout.name << " " << name;
    }
}

// The scale is a power of two and no number overflows, so only numbers near 0 differ. Weights alone
// would not show a gradient that is still scaled, because Adam divides it by its own size.
TEST(Float16, TheScaleCancels) {
    const Record small = train(kLayouts[0], {{64}}), large = train(kLayouts[0], {{8192}});
    EXPECT_EQ(number(small, "0.loss"), number(large, "0.loss"));
    EXPECT_NEAR(number(small, "0.grad_norm"), number(large, "0.grad_norm"),
                1e-3 * number(large, "0.grad_norm"));
    for (const auto& [name, tensor] : small.values) {
        if (!name.starts_with("0.weight.") && !name.starts_with("0.exp_avg")) continue;
        EXPECT_LT(error_of(tensor, large.values.at(name)), 2e-2) << name;
    }
}

// The base of a LoRA model has no main weights, so an update must not round them to it.
TEST(Float16, AnAdapterLeavesTheBaseAsItIs) {
    spec::ModelConfig config = tiny_model(false);
    config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}});
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, 2);
    at::set_num_threads(1);
    TrainStep trainer(config, schedule, {self, self}, {.init = {.std = 0.2, .dtype = at::kHalf}});
    const Parameters& p = trainer.chunks()[0].parameters();
    const at::Tensor before = p.flat_weight.clone();
    const std::vector<at::Tensor> old = views_of(p.specs, before);
    for (int step = 0; step < 2; ++step)
        EXPECT_TRUE(trainer.run(tiny_batch(step, 2), 1e-2, 1024).updated);
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const at::Tensor main = at::empty(p.specs[i].sizes, at::kFloat);
        copy_main(p, i, main);
        EXPECT_TRUE(p.weight[i].equal(main.to(at::kHalf))) << p.specs[i].name;
        EXPECT_EQ(p.weight[i].equal(old[i]), p.specs[i].lora == LoraRole::Base) << p.specs[i].name;
    }
}

// A scale that is too large makes the gradient overflow by itself.
TEST(Float16, ALargeScaleOverflows) {
    const Record record = train(kLayouts[0], {{1e9}, {1024}});
    EXPECT_EQ(number(record, "0.updated"), 0);
    EXPECT_EQ(number(record, "1.updated"), 1);
}

}  // namespace
}  // namespace roll::train
