// Saved activations outside the device's memory (train.activation_offload): losses, gradients,
// weights and moments have the bits of the same job without it, in layouts of the grid, for each
// precision, on the CPU and on the simulated device; and the use of the disk.
#include <mutex>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/worker/train/device/simulated_device.hpp"
#include "tests/worker/train/pipeline/grid_rows.hpp"
#include "tests/worker/train/pipeline/scratch.hpp"
#include "worker/train/model/extents.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

constexpr std::size_t kEvery = 24;  // one cell of the grid in this many is run

using MakeStore = std::function<std::shared_ptr<SavedStore>()>;

// Trains the world without and with a store on each rank, and expects the same bits.
void compare(World world, const MakeStore& make) {
    const Scratch scratch("activations");
    world.saves_to = scratch / 0;
    world.evaluates = true;
    LocalJob job = job_of(world);
    const Named plain = train_locally(job).values;
    std::mutex mutex;
    std::vector<std::shared_ptr<SavedStore>> stores;
    job.saves_to = scratch / 1;
    job.prepare = [&](TrainStep& step) {
        const std::shared_ptr<SavedStore> store = make();
        for (Chunk& chunk : step.chunks()) chunk.saved_room().use(store);
        const std::scoped_lock lock(mutex);
        stores.push_back(store);
    };
    const Named seen = train_locally(job).values;
    EXPECT_EQ(std::ssize(stores), world.dp * world.tp * world.schedule.pp);
    for (const std::shared_ptr<SavedStore>& store : stores) EXPECT_GT(store->most(), 0);
    ASSERT_EQ(seen.size(), plain.size());
    for (const auto& [name, value] : plain) ASSERT_TRUE(at::equal(seen.at(name), value)) << name;
}

std::shared_ptr<SavedStore> in_file() {
    return file_store(std::filesystem::current_path(), /*reserved=*/0, /*least=*/1);
}

void compare_cells(std::size_t every, at::Device device, const MakeStore& make) {
    const std::vector<Row> cells = make_grid().cells;
    int compared = 0;
    for (std::size_t i = 0; i < cells.size(); i += every) {
        const ModelSetup setup = setup_of(cells[i]);
        const spec::LoraSpec& lora = setup.config.lora;
        if (!device.is_cpu() && (lora.base != spec::LoraBase::Full || lora.dropout > 0)) continue;
        SCOPED_TRACE(name(cells[i]));
        World world = world_of(cells[i], setup);
        world.steps = world.saves_after = 2;
        world.device = device;
        compare(std::move(world), make);
        ++compared;
    }
    std::printf("%d cells\n", compared);
    EXPECT_GT(compared, 3);
}

TEST(ActivationOffload, CellsOfTheGridHaveTheSameBits) { compare_cells(kEvery, at::kCPU, in_file); }

TEST(ActivationOffload, CellsOnADeviceHaveTheSameBits) {
    const at::Device device = simulated_device();
    compare_cells(2 * kEvery, device, [device] {
        const auto zeros = [](std::int64_t size, const at::TensorOptions& options) {
            return at::zeros({size}, options);
        };
        return host_store(device, zeros, /*least=*/1);
    });
}

TEST(ActivationOffload, EachPrecisionHasTheSameBits) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
        compare({.config = world_model(true),
                 .schedule = plan::one_forward_one_backward(2, kMicrobatches),
                 .dtype = type,
                 .clip = 0,
                 .saves_after = 0},
                in_file);
}

TEST(ActivationOffload, ValuesThatShareMemoryAreKeptOnceAndShareItAgain) {
    at::Tensor whole = at::arange(5000, at::kDouble), view, other = at::ones({3});
    view = whole.narrow(0, 100, 4000).view({40, 100}).t();
    const at::Tensor expected_view = view.clone(), expected = whole.clone();
    const std::shared_ptr<SavedStore> store = in_file();
    at::Tensor none;
    const std::vector<at::Tensor*> values{&whole, &none, &view, &other};
    ParkedValues parked;
    parked.park(*store, values);
    EXPECT_TRUE(!whole.defined() && !view.defined() && !other.defined());
    EXPECT_EQ(store->most(), 5000 * 8 + 3 * 4);
    parked.fetch();
    parked.restore(values);
    EXPECT_FALSE(none.defined());
    parked.restore(values);  // nothing is left to restore
    EXPECT_TRUE(at::equal(whole, expected) && at::equal(view, expected_view));
    EXPECT_TRUE(view.is_alias_of(whole) && view.strides() == at::IntArrayRef({1, 100}));
    EXPECT_TRUE(at::equal(other, at::ones({3})));
}

TEST(ActivationOffload, HostMemoryIsUsedAgainForASimilarSize) {
    int made = 0;
    const auto zeros = [&](std::int64_t size, const at::TensorOptions& options) {
        ++made;
        return at::zeros({size}, options);
    };
    const std::shared_ptr<SavedStore> store = host_store(at::kCPU, zeros, /*least=*/1);
    for (const int size : {1000, 1001, 1024}) {
        at::Tensor value = at::arange(size, at::kDouble);
        const at::Tensor expected = value.clone();
        const std::vector<at::Tensor*> values{&value};
        ParkedValues parked;
        parked.park(*store, values);
        parked.restore(values);
        EXPECT_TRUE(at::equal(value, expected)) << size;
    }
    EXPECT_EQ(made, 1);
    EXPECT_EQ(store->most(), 1024 * 8);
}

TEST(ActivationOffload, FreedRangesAreJoinedAndUsedAgain) {
    Extents free;
    EXPECT_EQ(free.take(1), std::nullopt);
    free.give(0, 100);
    EXPECT_EQ(free.take(40), 0);
    EXPECT_EQ(free.take(30), 40);
    EXPECT_EQ(free.take(31), std::nullopt);
    free.give(0, 40);
    EXPECT_EQ(free.take(41), std::nullopt);  // 0 to 40 and 70 to 100 are free
    free.give(40, 30);
    EXPECT_EQ(free.take(100), 0);
}

TEST(ActivationOffload, ADiskWithoutSpaceIsRefusedWithTheNumbers) {
    try {
        file_store(std::filesystem::current_path(), std::int64_t{1} << 60);
        ADD_FAILURE() << "a file of 1 EiB was reserved";
    } catch (const RankFailure& failure) {
        const std::string text = failure.what();
        EXPECT_EQ(failure.status(), 4);
        EXPECT_TRUE(text.starts_with("train.activation_offload: cannot keep 1")) << text;
        EXPECT_NE(text.find(" of saved activations in "), std::string::npos) << text;
        EXPECT_NE(text.find("; free space there"), std::string::npos) << text;
    }
}

// Returns the descriptors of this process's open files that have no name in a folder.
std::set<int> unnamed_files() {
    std::set<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        if (std::filesystem::is_symlink(entry) &&
            std::filesystem::read_symlink(entry).string().ends_with(" (deleted)"))
            found.insert(std::stoi(entry.path().filename()));
    return found;
}

TEST(ActivationOffload, ValuesThatCannotBeReadAreNotToldAsAFullDisk) {
    const std::set<int> earlier = unnamed_files();  // the process may have inherited some
    const std::shared_ptr<SavedStore> store = in_file();
    const std::unique_ptr<KeptBytes> kept = store->keep(at::zeros({3 << 20}, at::kByte));
    std::set<int> files = unnamed_files();
    std::erase_if(files, [&](int file) { return earlier.contains(file); });
    ASSERT_EQ(files.size(), 1U);
    ASSERT_EQ(::ftruncate(*files.begin(), 0), 0);
    try {
        kept->take();
        ADD_FAILURE() << "bytes behind the end of the file were read";
    } catch (const RankFailure& failure) {
        const std::string text = failure.what();
        EXPECT_TRUE(
            text.starts_with("train.activation_offload: cannot read 3 MiB of saved "
                             "activations back from "))
            << text;
        EXPECT_EQ(text.find("free"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace roll::train
