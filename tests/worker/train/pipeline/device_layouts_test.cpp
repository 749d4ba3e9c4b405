// Tests the trainer's code for GPUs in layouts of the grid, on a device that hides its memory from
// the CPU (device/simulated_device.hpp). Losses, gradients, weights and moments must be those of
// one rank on the CPU, in fp64. Each cell saves a checkpoint and continues from it.
#include "tests/worker/train/device/simulated_device.hpp"
#include "tests/worker/train/pipeline/grid_rows.hpp"
#include "tests/worker/train/pipeline/scratch.hpp"
#include "worker/train/prove/local_job.hpp"

namespace roll::train {
namespace {

constexpr std::size_t kEvery = 36;  // one cell of the grid in this many is run
constexpr int kSteps = 2;           // before the checkpoint
constexpr int kMoreSteps = 1;       // from the checkpoint

// The optimizer on a GPU multiplies the gradients by the clip factor in place.
void clip_gradients(Named& reference) {
    for (auto& [name, value] : reference) {
        const std::size_t dot = name.find('.');
        if (name.compare(dot, 6, ".grad.") == 0)
            value = value * reference.at(name.substr(0, dot) + ".clip_factor").item<double>();
    }
}

// Trains on one rank of the CPU.
Named reference_of(const World& world) {
    World whole = alone(world);
    whole.saves_after = 0;
    whole.steps = kSteps + kMoreSteps;
    whole.evaluates = true;
    Named reference = train(whole);
    clip_gradients(reference);
    return reference;
}

// Trains in the layout on the simulated device, with a checkpoint before the last step. Expects the
// numbers of `reference`.
void compare(World world, const Named& reference, std::uint64_t seed) {
    const Scratch scratch("device");
    world.fabric.seed = seed;
    world.saves_to = scratch / 0;
    world.steps = world.saves_after = kSteps;
    Named first, rest;
    for (const auto& [name, value] : reference) {
        const bool is_first = !name.starts_with("valid.") && std::stoi(name) < world.steps;
        (is_first ? first : rest).emplace(name, value);
    }
    world.device = simulated_device();
    EXPECT_EQ(first_difference({train(world)}, first), std::nullopt);
    world.saves_after = 0;
    world.starts_from = local_checkpoint(world.saves_to);
    world.evaluates = true;
    world.first_step = world.steps;
    world.steps += kMoreSteps;
    EXPECT_EQ(first_difference({train(world)}, rest), std::nullopt);
}

TEST(DeviceLayouts, CellsOfTheGridTrainAsOneRankOfTheCpuDoes) {
    const std::vector<Row> cells = make_grid().cells;
    int compared = 0, packed = 0;
    for (std::size_t i = 0; i < cells.size(); i += kEvery) {
        const ModelSetup setup = setup_of(cells[i]);
        SCOPED_TRACE(name(cells[i]));
        const World world = world_of(cells[i], setup);
        compare(world, reference_of(world), ++compared);
        packed += setup.config.lora.base != spec::LoraBase::Full ? 1 : 0;
    }
    std::printf("%d cells, %d of them with packed weights\n", compared, packed);
    EXPECT_GT(compared, 8);
    EXPECT_GT(packed, 1);
}

TEST(DeviceLayouts, CellsWithContextParallelismTrainAsOneRankOfTheCpuDoes) {
    const std::vector<Row> cells = context_rows();
    for (std::size_t i = 0; i < cells.size(); i += kEvery / 2) {
        const ModelSetup setup = setup_of(cells[i]);
        SCOPED_TRACE(name(cells[i]));
        const World world = world_of(cells[i], setup);
        compare(world, reference_of(world), i + 1);
    }
}

TEST(DeviceLayouts, LoraWithDropoutTrainsAsOneRankOfTheCpuDoes) {
    const std::vector<Row> cells = make_grid().cells;
    const auto has_lora = [](const Row& row) { return setup_of(row).config.lora.is_set(); };
    const auto found = std::ranges::find_if(cells, [&](const Row& row) {
        return row[Tp] > 0 && row[Pp] > 0 && has_lora(row) &&
               setup_of(row).config.lora.base == spec::LoraBase::Full;
    });
    ASSERT_NE(found, cells.end());
    SCOPED_TRACE(name(*found));
    ModelSetup setup = setup_of(*found);
    setup.config.lora.dropout = 0.2;
    const World world = world_of(*found, setup);
    compare(world, reference_of(world), 1);
}

// Muon is missing, because it computes in bfloat16 on GPUs.
TEST(DeviceLayouts, OptimizersTrainAsOneRankOfTheCpuDoes) {
    using enum spec::OptimizerKind;
    Row row(kAxes);  // the first value of every other axis
    row[Tp] = row[Pp] = row[Dp] = 1;
    const ModelSetup setup = setup_of(row);
    ModelSetup large = setup;  // its matrices are large enough for 8-bit states
    large.native["ffn_hidden_size"] = large.config.intermediate = 600;
    for (const spec::OptimizerKind kind : {Adam, Sgd, Lion, Adafactor, AdamWBf16, AdamW8bit}) {
        World world = world_of(row, kind == AdamW8bit ? large : setup);
        world.optimizer.kind = kind;
        const Named reference = reference_of(world);
        for (const int zero : {0, 1, 3}) {
            world.zero = zero;
            SCOPED_TRACE(std::string(spec::name_of(kind)) + ", zero " + std::to_string(zero));
            compare(world, reference, 1);
        }
    }
}

}  // namespace
}  // namespace roll::train
