// Tests that a step above a limit changes nothing, that its repetition has the same bits, and that
// all ranks decide alike, in several layouts.
#include <map>
#include <tuple>

#include <ATen/Parallel.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "worker/plan/mesh.hpp"

namespace roll::train {
namespace {

std::vector<at::Tensor> own_gradients(TrainStep& step) {
    std::vector<at::Tensor> all;
    for (Chunk& chunk : step.chunks()) {
        const Parameters& p = chunk.parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (!p.specs[i].frozen) all.push_back(p.own_grad[i].clone());
    }
    return all;
}

using Values = std::tuple<double, double, TooHigh>;

// The results of all ranks: the values of each run(), and the state of all ranks at the end.
struct Seen {
    std::map<std::string, std::vector<Values>> of_step;
    Record state;
};

// Computes the step with a limit that it exceeds, and again.
void refuse(TrainStep& trainer, std::span<const Microbatch> batch, const StepLimits& limits,
            std::vector<Values>& seen) {
    const StepResult refused = trainer.run(batch, 1e-2, 1, true, limits);
    EXPECT_FALSE(refused.updated);
    seen.emplace_back(refused.loss, refused.grad_norm, refused.too_high);
    const std::vector<at::Tensor> before = own_gradients(trainer);
    const StepResult again = trainer.repeat(batch);
    EXPECT_EQ(again.loss, refused.loss);
    EXPECT_EQ(again.grad_norm, refused.grad_norm);
    const std::vector<at::Tensor> after = own_gradients(trainer);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
}

// Trains two steps on dp * pp * tp ranks. `refuses`: before each step, also computes it with
// limits that it exceeds.
Seen train_ranks(const World& world, bool refuses) {
    const LocalJob job = job_of(world);
    const int ranks = world.dp * world.tp * world.schedule.pp;
    const plan::Mesh mesh =
        plan::Mesh::make({.dp = world.dp, .tp = world.tp, .pp = world.schedule.pp}, ranks).value();
    LocalFabric fabric(ranks, world.fabric);
    Seen seen;  // needs no lock, because one rank runs at a time
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const auto group = [&](const std::string& name, plan::Axis axis) {
            const std::vector<int> members = mesh.group(rank, axis);
            return fabric.group(name + std::to_string(members.front()), members, rank);
        };
        const auto pp = group("pp", plan::Axis::Pp), dp = group("dp", plan::Axis::Dp),
                   tp = group("tp", plan::Axis::Tp);
        const auto everyone = fabric.world(rank);
        TrainStep trainer(job.config, job.schedule,
                          {.pp = *pp, .dp = *dp, .tp = tp.get(), .world = everyone.get()},
                          job.options);
        for (int step = 0; step < 2; ++step) {
            const std::vector<Microbatch> all = job.batch(step);
            const int own = job.schedule.microbatches;
            const auto batch = std::span(all).subspan(dp->rank() * own, own);
            std::vector<Values> values;
            if (refuses) {
                refuse(trainer, batch, {.loss = 0.01}, values);
                refuse(trainer, batch, {.grad_norm = 1e-9}, values);
                EXPECT_EQ(std::get<2>(values[0]), TooHigh::Loss);
                EXPECT_EQ(std::get<2>(values[1]), TooHigh::GradNorm);
            }
            const StepResult result = trainer.run(batch, 1e-2, 1, true, {.loss = 1e9});
            EXPECT_TRUE(result.updated);
            values.emplace_back(result.loss, result.grad_norm, result.too_high);
            for (const Values& one : values)
                EXPECT_EQ(one, std::tuple(result.loss, result.grad_norm, std::get<2>(one)));
            const std::string key = std::to_string(step) + (refuses ? " refused" : "");
            const auto first = seen.of_step.emplace(key, values).first;
            EXPECT_EQ(first->second, values) << "rank " << rank << " of " << ranks;
        }
        note_state(seen.state, "", trainer);
    });
    return seen;
}

void expect_nothing_changes(const World& world) {
    Named reference, refused;
    take(train_ranks(world, false).state, reference);
    take(train_ranks(world, true).state, refused);
    ASSERT_EQ(refused.size(), reference.size());
    for (const auto& [name, tensor] : reference)
        EXPECT_TRUE(refused.at(name).equal(tensor)) << name;
}

TEST(Limits, ARefusedStepChangesNothingAndItsRepetitionHasTheSameBits) {
    const int m = kMicrobatches;
    const spec::ModelConfig config = split_model(false);
    const std::vector<World> worlds = {
        {.config = config, .schedule = plan::gpipe(1, 1, m)},
        {.config = config, .schedule = plan::zero_bubble_h1(2, m), .tp = 2, .sequence = true},
        {.config = config, .schedule = plan::one_forward_one_backward(1, m / 2), .dp = 2},
        {.config = config, .schedule = plan::gpipe(1, 1, m / 2), .dp = 2, .zero = 1},
        {.config = config, .schedule = plan::gpipe(1, 1, m / 2), .dp = 2, .zero = 2},
        {.config = config, .schedule = plan::interleaved(2, 2, m / 2), .dp = 2, .zero = 3},
    };
    for (World world : worlds) {
        SCOPED_TRACE(std::to_string(world.dp) + " x " + std::to_string(world.tp) + " x " +
                     std::to_string(world.schedule.pp) + " zero " + std::to_string(world.zero));
        world.dtype = world.zero == 1 ? at::kBFloat16 : at::kFloat;
        expect_nothing_changes(world);
    }
}

// Dropout is a function of the samples and the seed, and the divergence of labelled answers is
// estimated in each pass.
TEST(Limits, DropoutAndTheEstimatedDivergenceRepeatToo) {
    World world{.config = split_model(false), .schedule = plan::gpipe(1, 1, 4), .dp = 2};
    world.config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}, {"dropout", 0.3}});
    world.clip = 0;
    expect_nothing_changes(world);
    world.preference = spec::PreferenceSpec{
        .kind = spec::PreferenceKind::Kto, .loss = spec::PairLoss::Kto, .beta = 0.05};
    world.data = Data::Labels;
    expect_nothing_changes(world);
}

}  // namespace
}  // namespace roll::train
