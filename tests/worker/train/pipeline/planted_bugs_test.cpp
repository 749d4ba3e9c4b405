// Tests that the comparison of layouts finds bugs in the communication of a step, in the batches of
// a preference objective, and in what a LoRA job trains. The in-process fabric, the batches or the
// job's description simulate each bug; the trainer is unchanged. For each bug, prints the first
// cell, quantity and tensor that differ from those of one rank. Without the bug, the same cells do
// not differ.
#include <optional>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

struct BugCell {
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
std::vector<BugCell> cells() {
    const int m = kMicrobatches;
    const auto cell = [](const char* name, bool tied, plan::PipelineSchedule schedule, int dp,
                         int tp) {
        return BugCell{name, {split_model(tied), std::move(schedule), dp, tp, {.seed = 1}, 1}};
    };
    const auto with = [](BugCell changed, int zero, bool sequence) {
        changed.world.zero = zero;
        changed.world.sequence = sequence;
        return changed;
    };
    // Computes all layers again, in units of two.
    const auto again = [&](BugCell changed, bool sequence) {
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
    const auto two_steps = [](BugCell changed) {
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
        {"loss and norm averaged over dp", {Average, Site::StepSums, -1, "dp"}},
        {"loss of the last stage not told to the others", {Drop, Site::StepSums, -1, "pp"}},
        {"q/k norm gradients not summed over tp", {Drop, Site::PartialGrads}},
        {"tied gradients not summed", {Drop, Site::TiedGrad}},
        {"tied gradient counted twice", {Double, Site::TiedGrad}},
        {"norm's sum over tp dropped", {Drop, Site::StepSums, -1, "tp"}},
        {"loss and norm of the other ranks dropped", {Drop, Site::StepSums, -1, "world"}},
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
        {"norm's sum over the owners dropped", {Drop, Site::StepSums, -1, "dp"}, "zero 1"},
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
    for (const BugCell& cell : cells())
        EXPECT_EQ(first_difference(train_locally(job_of(cell.world)), alone(cell.world)),
                  std::nullopt)
            << cell.name;
    for (const Bug& bug : bugs()) {
        std::string found;
        for (BugCell cell : cells()) {
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

// Returns three layouts of a model with LoRA in all linear layers. The gradients of factors are
// small, and not clipped.
std::vector<BugCell> lora_cells() {
    const int m = kMicrobatches;
    World world{.config = split_model(false),
                .schedule = plan::gpipe(1, 1, m),
                .tp = 2,
                .fabric = {.seed = 1},
                .steps = 2,
                .clip = 0};
    world.config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}});
    World stages = world, owners = world;
    stages.schedule = plan::zero_bubble_h1(2, m);
    owners.schedule = plan::gpipe(1, 1, m / 2);
    owners.dp = 2;
    owners.zero = 1;
    return {{"LoRA, tp 2", world}, {"LoRA, tp 2, pp 2", stages}, {"LoRA, tp 2, zero 1", owners}};
}

using Change = std::function<void(int step, std::vector<Microbatch>& batch)>;

// Returns a function that sets the log-probabilities of `model` as the reference.
Change references_of(std::shared_ptr<Chunk> model) {
    return [model = std::move(model)](int, std::vector<Microbatch>& batch) {
        set_references(*model, batch);
    };
}

// Returns the cells of lora_cells() with objective dpo, and the model without the adapter as the
// reference.
std::vector<BugCell> preference_cells() {
    std::vector<BugCell> cells = lora_cells();
    World base = cells.front().world;
    base.config.lora = {};
    const std::shared_ptr<Chunk> model = starting_model(base);
    for (BugCell& cell : cells) {
        cell.world.data = Data::Pairs;
        cell.world.preference = spec::PreferenceSpec{.beta = 0.3};
        cell.world.change = references_of(model);
    }
    return cells;
}

// Returns the model of a preference cell with the adapter that one rank has trained.
std::shared_ptr<Chunk> trained_model(const World& world, const Named& trained) {
    const at::InferenceMode no_autograd;
    const std::shared_ptr<Chunk> model = starting_model(world);
    const Parameters& p = model->parameters();
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        if (p.specs[i].lora == LoraRole::Factor)
            p.weight[i].copy_(trained.at("1.weight." + p.specs[i].name));
    return model;
}

// Moves the last answer of every second micro-batch to the beginning of the next one, as a packer
// does that does not know of pairs.
void split_pairs(std::vector<Microbatch>& batch) {
    for (std::size_t k = 0; k + 1 < batch.size(); k += 2) {
        Microbatch &from = batch[k], &to = batch[k + 1];
        if (from.references.empty() || to.references.empty()) continue;
        const std::int64_t start = from.segments.back();
        const std::int64_t moved = from.tokens_BT.size(1) - start;
        for (at::Tensor Microbatch::*rows : {&Microbatch::tokens_BT, &Microbatch::targets_BT}) {
            to.*rows = at::cat({(from.*rows).narrow(1, start, moved), to.*rows}, 1);
            from.*rows = (from.*rows).narrow(1, 0, start).contiguous();
        }
        for (std::int64_t& begin : to.segments) begin += moved;
        to.segments.insert(to.segments.begin(), 0);
        from.segments.pop_back();
        to.references.insert(to.references.begin(), from.references.back());
        from.references.pop_back();
    }
}

// Makes every token a target, so that the prompts' tokens count.
void learn_prompts(std::vector<Microbatch>& batch) {
    for (Microbatch& data : batch)
        if (!data.references.empty()) data.targets_BT = data.tokens_BT.roll(-1, 1);
}

// A bug of a LoRA job or of a preference job, which must be found in every cell.
struct JobBug {
    const char* name;
    std::function<void(World&)> plant;
    const char* quantity;  // what is to be found first
    const char* tensor;    // a part of the name of the first tensor that is to be found
};

// Returns what differs first, and the first tensor that differs, in the order in which a step
// computes them; empty texts if nothing differs.
std::pair<std::string, std::string> found_in(const World& world, const Named& alone) {
    std::vector<std::string> parameters;
    for (const ParameterSpec& spec : parameter_specs(world.config, whole_chunk(world.config)))
        parameters.push_back(spec.name);
    const std::vector<Difference> all =
        differences(train_locally(job_of(world)), alone, 1e-10, parameters);
    const auto tensor = std::ranges::find_if(all, [&](const Difference& difference) {
        const auto known = alone.find(difference.name);
        return known != alone.end() && known->second.dim() > 0;
    });
    return {all.empty() ? "" : all.front().name, tensor == all.end() ? "" : tensor->name};
}

void expect_found(const std::vector<BugCell>& cells, const Named& alone,
                  const std::vector<JobBug>& bugs) {
    for (const BugCell& cell : cells)
        EXPECT_EQ(found_in(cell.world, alone), std::pair(std::string(), std::string()))
            << cell.name;
    for (const JobBug& bug : bugs)
        for (BugCell cell : cells) {
            bug.plant(cell.world);
            const auto [quantity, tensor] = found_in(cell.world, alone);
            EXPECT_TRUE(quantity.starts_with(bug.quantity)) << bug.name << ": " << quantity;
            EXPECT_NE(tensor.find(bug.tensor), std::string::npos) << bug.name << ": " << tensor;
            if (cell.name == cells.front().name)
                std::printf("%s: %s: %s, %s\n", bug.name, cell.name, quantity.c_str(),
                            tensor.c_str());
        }
}

World alone_like(World world) {
    world.schedule = plan::gpipe(1, 1, kMicrobatches);
    world.tp = 1;
    return world;
}

TEST(PlantedBugs, EachBugOfALoraJobIsFoundInEveryCell) {
    const auto drop_factors = [](World& world) {
        world.fabric.plants = {{Plant::Kind::Drop, Site::PartialGrads}};
    };
    const auto train_head = [](World& world) { world.config.lora.modules_to_save = {"lm_head"}; };
    const std::vector<BugCell> cells = lora_cells();
    expect_found(cells, train(alone_like(cells.front().world)),
                 {{"replicated LoRA factor not summed over tp", drop_factors, "0.grad.", ".lora_"},
                  {"a frozen weight updated", train_head, "0.grad.", ".output_layer.weight"}});
}

TEST(PlantedBugs, EachBugOfAPreferenceJobIsFoundInEveryCell) {
    const std::vector<BugCell> cells = preference_cells();
    Named alone = train(alone_like(cells.front().world));
    // In the first step, the adapter has no effect, so that rounding decides which reward is higher
    alone.erase("0.pair_sum." + std::to_string(PairSums::Accuracy));
    const std::shared_ptr<Chunk> adapted = trained_model(cells.front().world, alone);
    // The reference stays right, and the batch is changed after it.
    const auto after = [](void (*change)(std::vector<Microbatch>&)) {
        return [change](World& world) {
            world.change = [change, right = world.change](int step,
                                                          std::vector<Microbatch>& batch) {
                right(step, batch);
                change(batch);
            };
        };
    };
    expect_found(
        cells, alone,
        {{"pairs split over micro-batches", after(split_pairs), "0.grad.", "0.grad."},
         {"reference taken with the adapter on",
          [&](World& world) { world.change = references_of(adapted); }, "0.loss", "0.grad."},
         {"prompt tokens in the DPO sum", after(learn_prompts), "0.loss", "0.grad."}});
}

}  // namespace
}  // namespace roll::train
