// Tests that every layout trains like one rank that executes the same micro-batches. After each
// step, compares the loss, the gradient norm, the number of zero gradients, the clip
// factor, and all gradients, weights and moments. After five steps, each cell saves a
// checkpoint, and continues from the checkpoint of another layout for two steps and an evaluation,
// whose numbers are compared too. Computes in float64, and compares to 1e-10. The weights of all
// replicas, and both copies of a tied embedding, must be bitwise equal. Clipping acts in every
// step, unless gradients are small. No size of a micro-batch divides.
//
// The cells are a covering array of at most 8 ranks: each pair of values of two axes, and each
// triple on tp, pp, vpp, zero, dp and recomputation, is in a cell. The objective and the kind of
// adapter are axes too. If a rule of the job file refuses all cells with a pair or a triple, one of
// them is counted as refused, and its nearest neighbor is run. With ROLL_GRID=full in the
// environment (`tests/run grid-full`), each triple of all axes is in a cell, and recomputation
// is compared bit by bit in every cell that has it.
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include <ATen/Parallel.h>

#include "tests/worker/train/pipeline/grid_rows.hpp"
#include "tests/worker/train/pipeline/scratch.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/prove/local_job.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMoreSteps = 2;
constexpr int kStepsOfRecomputation = 2;

const Grid& grid() {
    static const Grid made = make_grid();
    return made;
}

// Calls run(0) to run(count - 1) on two threads.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& run) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        at::set_num_threads(1);
        for (std::size_t i = next++; i < count; i = next++) run(i);
    };
    std::thread other(work);
    work();
    other.join();
}

// Returns the quantities of the steps before `step`, or from `step` on with the evaluation.
Named before(const Named& all, int step) {
    Named found;
    for (const auto& [name, tensor] : all)
        if (!name.starts_with("valid.") && std::stoi(name) < step) found.emplace(name, tensor);
    return found;
}

Named from(const Named& all, int step) {
    Named found;
    for (const auto& [name, tensor] : all)
        if (name.starts_with("valid.") || std::stoi(name) >= step) found.emplace(name, tensor);
    return found;
}

// Returns the job that continues from the checkpoint below `saved`.
World continued(World world, const fs::path& saved) {
    world.saves_after = 0;
    world.evaluates = true;
    world.starts_from = local_checkpoint(saved);
    world.first_step = world.steps;
    world.steps += kMoreSteps;
    return world;
}

// Trains cells of one key, and one rank. Each continues from the checkpoint of the one before.
void compare_cells(const std::vector<Row>& cells, std::uint64_t seed) {
    const ModelSetup setup = setup_of(cells.front());
    const Scratch scratch("grid");
    std::vector<World> worlds{alone(world_of(cells.front(), setup))};
    for (const Row& row : cells) {
        worlds.push_back(world_of(row, setup));
        worlds.back().fabric.seed = ++seed;
    }
    for (std::size_t i = 0; i < worlds.size(); ++i) worlds[i].saves_to = scratch / i;
    World whole = worlds[0];
    whole.steps += kMoreSteps;
    whole.evaluates = true;
    const Named reference = train(whole);
    const Named first = before(reference, kStepsOfCell), rest = from(reference, kStepsOfCell);
    const auto trace = [&](std::size_t i) { return i == 0 ? "one rank" : name(cells[i - 1]); };
    for (std::size_t i = 1; i < worlds.size(); ++i) {
        SCOPED_TRACE(trace(i));
        EXPECT_EQ(first_difference({train(worlds[i])}, first), std::nullopt) << trace(i);
    }
    for (std::size_t i = 0; i < worlds.size(); ++i) {
        const std::size_t other = (i + worlds.size() - 1) % worlds.size();
        const std::string what = trace(i) + " from the checkpoint of " + trace(other);
        SCOPED_TRACE(what);
        EXPECT_EQ(first_difference({train(continued(worlds[i], scratch / other))}, rest),
                  std::nullopt)
            << what;
    }
}

// Compares all cells with one rank.
void compare_all(const std::vector<Row>& cells) {
    std::map<std::vector<int>, std::vector<Row>> by_key;
    for (const Row& row : cells) by_key[key_of(row)].push_back(row);
    std::vector<std::vector<Row>> groups;
    for (auto& [key, rows] : by_key) groups.push_back(std::move(rows));
    // The longest groups come first, so that both threads end at about the same time.
    std::ranges::sort(groups, std::greater(), [](const std::vector<Row>& rows) {
        std::int64_t cost = 0;
        for (const Row& row : rows) cost += cost_of(row);
        return cost;
    });
    std::printf("%zu cells, %zu references\n", cells.size(), groups.size());
    in_parallel(groups.size(), [&](std::size_t i) { compare_cells(groups[i], 1000 * (i + 1)); });
}

TEST(Grid, EveryCellTrainsAsOneRankDoes) { compare_all(grid().cells); }

// The ranks of a context-parallel group share each sequence.
TEST(Grid, EveryCellWithContextParallelismTrainsAsOneRankDoes) { compare_all(context_rows()); }

// Loads a rank's state as if each chunk but the model's first began one layer earlier.
void load_one_layer_off(const fs::path& saved, TrainStep& step, const ModelSetup& model) {
    const std::string layers = "decoder.layers.";
    const auto move_names = [&](std::int64_t by) {
        for (Chunk& chunk : step.chunks())
            for (ParameterSpec& spec : chunk.parameters().specs) {
                if (chunk.part().pre || !spec.name.starts_with(layers)) continue;
                const std::string rest = spec.name.substr(spec.name.find('.', layers.size()));
                const std::int64_t layer = std::stoll(spec.name.substr(layers.size())) + by;
                spec.name = layers + std::to_string(layer) + rest;
            }
    };
    move_names(-1);
    restore(saved, step, model);
    move_names(1);
}

// Returns the first quantity and the first tensor that differ; "nothing" if nothing differs.
std::string found_in(const World& world, const Named& reference) {
    const std::vector<Difference> all = differences(train_locally(job_of(world)), reference, 1e-10);
    const auto tensor = std::ranges::find_if(all, [&](const Difference& one) {
        const auto known = reference.find(one.name);
        return known != reference.end() && known->second.dim() > 0;
    });
    if (all.empty()) return "nothing";
    return all.front().name + ", " + (tensor == all.end() ? "no tensor" : tensor->name);
}

// Takes a rank's state from a checkpoint.
using Load = std::function<void(const fs::path& saved, TrainStep& step, const ModelSetup& model)>;

// Trains the world until its checkpoint, and continues from it. Expects that all is right, and that
// `load`, which takes the state wrongly, is first found in `quantity`.
void expect_found(const World& world, const Load& load, const char* what, const Row& row,
                  const std::string& quantity) {
    World whole = alone(world);
    whole.saves_after = 0;
    whole.steps += kMoreSteps;
    whole.evaluates = true;
    const Named reference = train(whole), rest = from(reference, kStepsOfCell);
    EXPECT_EQ(found_in(world, before(reference, kStepsOfCell)), "nothing");
    World later = continued(world, world.saves_to);
    EXPECT_EQ(found_in(later, rest), "nothing");
    later.load = [&](TrainStep& step) { load(later.starts_from, step, *world.model); };
    const std::string found = found_in(later, rest);
    const std::string expected = std::to_string(kStepsOfCell) + "." + quantity;
    EXPECT_TRUE(found.starts_with(expected)) << found;
    std::printf("%s: %s: %s\n", what, name(row).c_str(), found.c_str());
}

// Only a job that continues from a checkpoint can find stages that are cut at one layer when they
// are saved, and at another when they are loaded.
TEST(Grid, StagesCutOneLayerOffBetweenSaveAndLoadAreFound) {
    for (const int vpp : {0, 1}) {
        Row row(kAxes);  // the first value of every other axis
        row[Pp] = row[Dp] = 1;
        row[Vpp] = vpp;
        const ModelSetup setup = setup_of(row);
        const Scratch scratch("grid");
        World world = world_of(row, setup);
        world.saves_to = scratch / 0;
        expect_found(world, load_one_layer_off, "stages cut one layer off", row, "loss, ");

        // Files that are named after other stages than those that they hold are refused.
        const int layers = static_cast<int>(setup.config.layers);
        world.parallel.first_layers = layers / 2 - vpp - 1;
        world.parallel.last_layers = layers - world.parallel.first_layers;
        train_locally(job_of(world));
        EXPECT_THROW(train_locally(job_of(continued(world, world.saves_to))), RankFailure);
    }
}

// Each rank keeps the moments of the rows that it had in another layout.
TEST(Grid, MomentsThatAreNotReshardedAreFound) {
    const auto load = [](const fs::path& saved, TrainStep& step, const ModelSetup& model) {
        restore(saved, step, model);
        for (Optimizer& optimizer : step.optimizers())
            for (const StateTensors& state : optimizer.state().kinds)
                state.flat.copy_(state.flat.roll(state.flat.numel() / 2));
    };
    Row row(kAxes);
    row[Zero] = row[Dp] = 1;
    const ModelSetup setup = setup_of(row);
    const Scratch scratch("grid");
    World world = world_of(row, setup);
    world.saves_to = scratch / 0;
    expect_found(world, load, "moments not resharded", row, "weight.");
}

// Whatever backward computes again has the bits that it had in forward, in every type.
TEST(Grid, RecomputationChangesNoBit) {
    const std::size_t every = is_full() ? 1 : 40;  // one cell of this many is run
    constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
    std::vector<Row> cells;
    for (const Row& row : grid().cells)
        if (row[Again] != 0) cells.push_back(row);
    in_parallel(cells.size() / every, [&](std::size_t i) {
        const Row& row = cells[every * i];
        const ModelSetup setup = setup_of(row);
        World again = world_of(row, setup);
        again.fabric.seed = i + 1;
        again.dtype = kTypes[i % std::size(kTypes)];
        again.saves_after = 0;
        again.steps = kStepsOfRecomputation;
        World saved = again;
        saved.recompute = {};
        const Named expected = train(saved), seen = train(again);
        EXPECT_EQ(seen.size(), expected.size());
        for (const auto& [name_of_tensor, tensor] : expected)
            EXPECT_TRUE(tensor.equal(seen.at(name_of_tensor)))
                << name(row) << ": " << name_of_tensor << " in " << again.dtype;
    });
}

// The rules are named by the key of the job file that they refuse.
TEST(Grid, RulesRefuseFewOfItsCells) {
    EXPECT_GE(grid().cells.size(), cells_min());
    EXPECT_LE(20 * grid().refused.size(), grid().cells.size());
    for (const Row& row : grid().refused) {
        const std::vector<spec::Problem> all = problems(row);
        ASSERT_FALSE(all.empty());
        EXPECT_TRUE(all.front().path.starts_with("parallel.")) << name(row);
        std::printf("refused: %s: %s\n", name(row).c_str(), all.front().path.c_str());
    }
    std::printf("%zu cells, %zu refused\n", grid().cells.size(), grid().refused.size());
}

}  // namespace
}  // namespace roll::train
