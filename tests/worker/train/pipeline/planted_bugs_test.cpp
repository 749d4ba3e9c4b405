// Tests that the comparison of layouts finds bugs in the communication of a step. The in-process
// fabric simulates each bug; the trainer is unchanged. For each bug, prints the first cell,
// quantity and tensor that differ from those of one rank. Without the bug, the same cells do not
// differ.
#include <optional>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

struct Cell {
    const char* name;
    World world;
};

struct Bug {
    const char* name;
    Plant plant;
    // Prefix of the names of the cells in which the bug may be found; empty: all cells
    std::string cell = {};
};

// Cells that use every axis. All are small, so that each bug costs milliseconds.
std::vector<Cell> cells() {
    const int m = kMicrobatches;
    const auto cell = [](const char* name, bool tied, plan::PipelineSchedule schedule, int dp,
                         int tp) {
        return Cell{name, {split_model(tied), std::move(schedule), dp, tp, {.seed = 1}, 1}};
    };
    const auto with = [](Cell changed, int zero, bool sequence) {
        changed.world.zero = zero;
        changed.world.sequence = sequence;
        return changed;
    };
    // Computes all layers again, in units of two.
    const auto again = [&](Cell changed, bool sequence) {
        changed = with(std::move(changed), 0, sequence);
        const std::int64_t layers = changed.world.config.layers;
        const int stages = changed.world.schedule.stages();
        changed.world.recompute.resize(static_cast<std::size_t>(layers));
        for (std::int64_t stage = 0; stage < stages; ++stage)
            plan::set_recomputed(changed.world.recompute,
                                 {layers * stage / stages, layers * (stage + 1) / stages},
                                 spec::Recompute::Full, layers, 2);
        return changed;
    };
    const auto two_steps = [](Cell changed) {
        changed.world.steps = 2;
        return changed;
    };
    return {
        cell("dp 2", false, plan::gpipe(1, 1, m / 2), 2, 1),
        cell("pp 2, tied", true, plan::zero_bubble_h1(2, m), 1, 1),
        cell("tp 2", false, plan::gpipe(1, 1, m), 1, 2),
        cell("tp 4, tied", true, plan::gpipe(1, 1, m), 1, 4),
        cell("dp 2, pp 2, tp 2, tied", true, plan::one_forward_one_backward(2, m / 2), 2, 2),
        with(cell("zero 1, dp 2", false, plan::gpipe(1, 1, m / 2), 2, 1), 1, false),
        with(cell("zero 2, dp 2, pp 2, tied", true, plan::zero_bubble_h1(2, m / 2), 2, 1), 2,
             false),
        with(cell("zero 3, dp 2", false, plan::gpipe(1, 1, m / 2), 2, 1), 3, false),
        two_steps(with(cell("zero 3, two steps, dp 2, tied", true, plan::gpipe(1, 1, 1), 2, 1), 3,
                       false)),
        again(cell("again, tp 2, pp 2, tied", true, plan::zero_bubble_h1(2, m), 1, 2), false),
        again(cell("again, sequence, tp 2", false, plan::gpipe(1, 1, m), 1, 2), true),
        with(cell("sequence, tp 2", false, plan::gpipe(1, 1, m), 1, 2), 0, true),
        with(cell("sequence, tp 2, pp 2, tied", true, plan::zero_bubble_h1(2, m), 1, 2), 0, true)};
}

std::vector<Bug> bugs() {
    using enum Plant::Kind;
    return {
        {"gradients averaged over dp", {Average, Site::Bucket}},
        {"one bucket's sum over dp counted twice", {Double, Site::Bucket, 1}},
        {"the last bucket is not summed over dp", {Drop, Site::Bucket, 0}},
        {"token count not summed over dp", {Drop, Site::TokenCount}},
        {"loss averaged over dp", {Average, Site::LossSum, -1, "dp"}},
        {"loss of the last stage not told to the others", {Drop, Site::LossSum, -1, "pp"}},
        {"q/k norm gradients not summed over tp", {Drop, Site::PartialGrads}},
        {"tied gradients not summed", {Drop, Site::TiedGrad}},
        {"tied gradient counted twice", {Double, Site::TiedGrad}},
        {"norm's sum over tp dropped", {Drop, Site::GradNorm, -1, "tp"}},
        {"norm's sum over stages dropped", {Drop, Site::GradNorm, -1, "pp"}},
        {"vocabulary-parallel loss not gathered", {Drop, Site::Loss}},
        {"embedding not summed", {Drop, Site::Embedding}},
        {"head input's gradient not summed", {Drop, Site::HeadInput}},
        {"column input's gradient not summed", {Drop, Site::ColumnInput}},
        {"row output not summed", {Drop, Site::RowOutput}},
        {"row output of layer 1 summed over half of the ranks", {Regroup, Site::RowOutput, 1}},
        {"row output counted twice in layer 0", {Double, Site::RowOutput, 0}},
        {"gradient from the next stage one micro-batch late", {Delay, Site::Gradient}},
        {"activation from the stage before one micro-batch late", {Delay, Site::Activation}},
        {"evaluation not summed over dp", {Drop, Site::Evaluation, -1, "dp"}},
        {"gradients of own rows not summed", {Drop, Site::Bucket}, "zero 1"},
        {"one bucket of own rows counted twice", {Double, Site::Bucket, 1}, "zero 2"},
        {"own rows averaged", {Average, Site::Bucket}, "zero 2"},
        {"weights of the other ranks not gathered", {Drop, Site::Weights}, "zero 1"},
        {"weights of the other ranks are those of another bucket",
         {Delay, Site::Weights},
         "zero 2"},
        {"norm's sum over the owners dropped", {Drop, Site::GradNorm, -1, "dp"}, "zero 1"},
        {"weights of the other ranks not gathered for a layer", {Drop, Site::Weights, 1}, "zero 3"},
        {"weights gathered for backward are those of another layer",
         {Delay, Site::Weights, -1, "", true},
         "zero 3"},
        {"the embedding is gathered from before the update",
         {Stale, Site::Weights, kEmbeddingUnit},
         "zero 3, two steps"},
        {"gradients of own rows reduced twice", {Double, Site::Bucket, 1}, "zero 3"},
        {"row output's rows not summed", {Drop, Site::RowOutput}, "sequence"},
        {"rows of a column layer's input not gathered", {Drop, Site::ColumnRows}, "sequence"},
        {"rows of a row layer's gradient not gathered", {Drop, Site::RowGrad}, "sequence"},
        {"column input's rows not summed", {Drop, Site::ColumnInput}, "sequence"},
        {"norm gradients not summed over tp", {Drop, Site::PartialGrads}, "sequence"},
        {"rows of the head's input not gathered", {Drop, Site::HeadRows}, "sequence"},
        {"rows of the embedding's gradient not gathered", {Drop, Site::EmbeddingGrad}, "sequence"},
        {"row output not summed when it is computed again",
         {Drop, Site::RowOutput, -1, "", true},
         "again"},
        {"row output computed again is that of another layer",
         {Delay, Site::RowOutput, -1, "", true},
         "again"},
        {"column input's rows not gathered again",
         {Drop, Site::ColumnRows, -1, "", true},
         "again, sequence"}};
}

TEST(PlantedBugs, EachIsFoundAndTheCellsAreRightWithoutThem) {
    // Steps of one rank with as many micro-batches as the cell, by these numbers and tied
    std::map<std::tuple<int, int, bool>, Named> references;
    const auto alone = [&](const World& world) -> const Named& {
        const int microbatches = world.dp * world.schedule.microbatches;
        Named& reference = references[{microbatches, world.steps, world.config.tied}];
        if (reference.empty())
            reference = train({.config = world.config,
                               .schedule = plan::gpipe(1, 1, microbatches),
                               .steps = world.steps});
        return reference;
    };
    for (const Cell& cell : cells())
        EXPECT_EQ(first_difference(train_locally(job_of(cell.world)), alone(cell.world)),
                  std::nullopt)
            << cell.name;
    for (const Bug& bug : bugs()) {
        std::string found;
        for (Cell cell : cells()) {
            if (!std::string(cell.name).starts_with(bug.cell)) continue;
            cell.world.fabric.plants = {bug.plant};
            const auto differs =
                first_difference(train_locally(job_of(cell.world)), alone(cell.world));
            if (!differs) continue;
            found = std::string(cell.name) + ": " + *differs;
            break;
        }
        EXPECT_NE(found, "") << bug.name;
        std::printf("%s: %s\n", bug.name, found.c_str());
    }
}

}  // namespace
}  // namespace roll::train
