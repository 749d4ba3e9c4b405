// Optimizer state in a file (train.optimizer.offload): the same bits as in memory, for every kind
// of optimizer and type; and the use of memory and disk.
#include <cstdlib>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/worker/train/device/simulated_device.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/element_bytes.hpp"
#include "worker/train/model/disk_file.hpp"
#include "worker/train/optim/optimizer.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// A folder on a disk. The build folder is on one; a temporary folder need not be.
struct OnDisk : testing::Test {
    OnDisk() { fs::create_directory(folder); }
    ~OnDisk() override { fs::remove_all(folder); }
    const fs::path folder = fs::current_path() / ("offload-" + std::to_string(::getpid()));
};
using Offload = OnDisk;

// Returns a model. If `large`, a state of the kind has more bytes than a window for one parameter.
spec::ModelConfig model_for(spec::OptimizerKind kind, bool large) {
    using enum spec::OptimizerKind;
    spec::ModelConfig config = tiny_model(false);
    config.layers = 1;
    if (large && (kind == AdamW || kind == Adam)) config.vocab = 100'000;
    if (large && kind == AdamWBf16) config.vocab = 180'000;
    if (large && kind == AdamW8bit) config.intermediate = 180'000;
    return config;
}

struct Trained {
    Parameters parameters;
    std::unique_ptr<Optimizer> optimizer;
};

// Trains with the share `offload` of the state in `memory`.
Trained train_for(spec::OptimizerKind kind, at::ScalarType type, StateMemory memory,
                  double offload = 1, at::Device device = at::kCPU) {
    const spec::ModelConfig config = model_for(kind, type != at::kBFloat16);
    const spec::OptimizerSpec options{.decays = {},
                                      .kind = kind,
                                      .momentum = 0.9,
                                      .ema = {.decay = 0.5, .every = 2},
                                      .offload = offload};
    const auto count = [&](const auto& specs) {
        return offloaded_count(options, specs, type == at::kDouble ? 8 : 4);
    };
    Trained trained{make_parameters(parameter_specs(config, whole_chunk(config)),
                                    {.seed = 5,
                                     .dtype = type,
                                     .device = device,
                                     .state_memory = std::move(memory),
                                     .offloaded_count = count}),
                    {}};
    const Parameters& p = trained.parameters;
    trained.optimizer = std::make_unique<Optimizer>(p, options, config);
    for (int step = 0; step < 2; ++step) {
        at::manual_seed(step);
        at::Tensor grad = p.flat_grad;
        grad.copy_(at::empty_like(grad, at::kCPU).normal_(0, 0.1));
        trained.optimizer->step(1e-3, 0.5);
    }
    trained.optimizer->swap_average();
    return trained;
}

// Returns the bytes of the process's resident memory that are pages of files.
std::int64_t resident_file_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("RssFile:")) return std::stoll(line.substr(8)) * 1024;
    return 0;
}

// Expects the same states, and that those of the first `other.parameters.offloaded` parameters, and
// no others, are in files. Returns their bytes.
std::int64_t expect_same_states(const Trained& plain, const Trained& other, std::string_view name) {
    std::int64_t outside = 0;
    const auto& kinds = plain.optimizer->state().kinds;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        const StateTensors& kept = other.optimizer->state().kinds[k];
        for (std::size_t i = 0; i < kept.of.size(); ++i) {
            if (!kept.of[i].defined() || kept.of[i].numel() == 0) continue;
            EXPECT_EQ(is_in_file(kept.of[i]), i < other.parameters.offloaded) << name << i;
            EXPECT_FALSE(is_in_file(kinds[k].of[i]));
            EXPECT_TRUE(at::equal(kept.of[i], kinds[k].of[i])) << name << kept.ending << i;
            if (is_in_file(kept.of[i])) outside += static_cast<std::int64_t>(kept.of[i].nbytes());
        }
    }
    return outside;
}

TEST_F(Offload, TheFirstParametersWithTheShareOfTheBytesAreOffloaded) {
    const spec::ModelConfig config = tiny_model(false);
    std::vector<ParameterSpec> specs = parameter_specs(config, whole_chunk(config));
    specs[0].frozen = true;
    const auto bytes = [&](std::size_t count, const spec::OptimizerSpec& options) {
        return static_cast<double>(state_bytes(options, std::span(specs).first(count), 4));
    };
    for (const auto kind : {spec::OptimizerKind::AdamW, spec::OptimizerKind::AdamW8bit}) {
        spec::OptimizerSpec options{.decays = {}, .kind = kind, .offload = 0};
        EXPECT_EQ(offloaded_count(options, specs, 4), 0U);
        for (const double share : {0.001, 0.3, 0.5, 0.999}) {
            options.offload = share;
            const std::size_t count = offloaded_count(options, specs, 4);
            const double least = share * bytes(specs.size(), options);
            EXPECT_GE(bytes(count, options), least) << share;
            EXPECT_LT(bytes(count - 1, options), least) << share;
        }
        options.offload = 1;
        EXPECT_EQ(offloaded_count(options, specs, 4), specs.size());
    }
}

TEST_F(Offload, EveryKindMakesTheSameBits) {
    using enum spec::OptimizerKind;
    at::set_num_threads(2);
    for (const spec::OptimizerKind kind :
         {AdamW, AdamWBf16, Adam, Sgd, Lion, Muon, Adafactor, AdamW8bit}) {
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            const Trained plain = train_for(kind, type, {});
            // An odd kind has its whole state in files, and an even kind about a half of it.
            const double offload = static_cast<int>(kind) % 2 == 0 ? 0.5 : 1;
            const Trained other = train_for(kind, type, file_memory(folder), offload);
            const Parameters &a = plain.parameters, &b = other.parameters;
            const std::int64_t outside = expect_same_states(plain, other, spec::name_of(kind));
            EXPECT_TRUE(offload == 1 ? b.offloaded == b.specs.size()
                                     : b.offloaded > 0 && b.offloaded < b.specs.size());
            EXPECT_GT(outside, 0);
            EXPECT_TRUE(at::equal(a.flat_weight, b.flat_weight)) << spec::name_of(kind) << type;
            EXPECT_TRUE(type != at::kBFloat16 || at::equal(a.flat_rest, b.flat_rest));
        }
    }
}

// On a GPU, the main weights of a parameter whose state is offloaded are offloaded, too.
TEST_F(Offload, ADeviceMakesTheSameBitsAndKeepsTheOtherMainWeights) {
    const auto type = at::kBFloat16;
    const Trained plain = train_for(spec::OptimizerKind::AdamW, type, {}, 1, simulated_device());
    for (const double offload : {0.5, 1.0}) {
        std::int64_t outside = 0;
        const auto memory = [&](std::int64_t size, const at::TensorOptions& options) {
            outside += size;
            return at::zeros({size}, options);
        };
        const Trained other =
            train_for(spec::OptimizerKind::AdamW, type, memory, offload, simulated_device());
        const Parameters& p = other.parameters;
        EXPECT_EQ(p.offloaded == p.specs.size(), offload == 1);
        const std::vector<ParameterSpec> first(
            p.specs.begin(), p.specs.begin() + static_cast<std::ptrdiff_t>(p.offloaded));
        EXPECT_EQ(p.flat_main_offloaded.numel(), numel(first));
        EXPECT_EQ(p.flat_main.numel(), numel(p.specs) - numel(first));
        EXPECT_EQ(outside, 4 * numel(first));  // main weights, two moments, the average
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const Parameters& q = plain.parameters;
            EXPECT_TRUE(at::equal(p.main[i].cpu(), q.main[i].cpu())) << p.specs[i].name;
            EXPECT_TRUE(at::equal(p.weight[i].cpu(), q.weight[i].cpu())) << p.specs[i].name;
        }
    }
}

TEST_F(Offload, TheStateIsNeitherInMemoryNorListed) {
    const std::int64_t before = resident_file_bytes();
    const Trained trained = train_for(spec::OptimizerKind::Adam, at::kDouble, file_memory(folder));
    std::int64_t bytes = 0;
    for (const StateTensors& kind : trained.optimizer->state().kinds)
        bytes += static_cast<std::int64_t>(kind.offloaded.nbytes());
    EXPECT_GT(bytes, 12 * plan::kOffloadWindow);  // two moments and the average
    EXPECT_LT(resident_file_bytes() - before, plan::kOffloadWindow);
    EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Offload, CopiesGoWindowByWindow) {
    const auto options = at::TensorOptions(at::kDouble);
    const std::int64_t size = 5 * plan::kOffloadWindow / 8 + 3;
    const at::Tensor kept = file_memory(folder)(size, options);
    EXPECT_EQ(kept.count_nonzero().item<std::int64_t>(), 0);
    const std::int64_t before = resident_file_bytes();
    const at::Tensor values = at::arange(size, options), back = at::empty_like(values);
    copy_state(kept, values);
    copy_state(back, kept);
    EXPECT_TRUE(at::equal(back, values));
    let_go(kept);
    EXPECT_LT(resident_file_bytes() - before, plan::kOffloadWindow / 8);
}

std::string failure_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const RankFailure& failure) {
        EXPECT_EQ(failure.status(), 4);
        return failure.what();
    }
    return "no failure";
}

TEST_F(Offload, AFolderWithoutSpaceOrInMemoryIsRefused) {
    const std::string full = failure_of(
        [&] { file_memory(folder)(std::int64_t{1} << 50, at::TensorOptions(at::kFloat)); });
    EXPECT_TRUE(full.starts_with("train.optimizer.offload: cannot keep ")) << full;
    // The error depends on the file system: the file is too large, or no space is left
    EXPECT_NE(full.find(" are free: "), std::string::npos) << full;
    EXPECT_NE(full.find("; free space there"), std::string::npos) << full;
    const Offloaded state{"train.optimizer.offload", "optimizer state"};
    check_is_on_disk(folder, state);
    const std::string in_memory = failure_of([&] { check_is_on_disk("/dev/shm", state); });
    EXPECT_TRUE(in_memory.starts_with("train.optimizer.offload: the folder /dev/shm is a tmpfs"))
        << in_memory;
    EXPECT_NE(
        failure_of([&] { check_is_on_disk(folder / "none", state); }).find("cannot use the folder"),
        std::string::npos);
}

}  // namespace
}  // namespace roll::train
