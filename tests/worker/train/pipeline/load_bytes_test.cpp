// Tests that a rank reads only its own part of a checkpoint, whatever layout wrote the checkpoint:
// counts the bytes of weights and optimizer state that all ranks of a layout read.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/worker/train/pipeline/scratch.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/prove/local_job.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {
namespace {

constexpr int kSaved = 1;  // number of steps before the checkpoint

ModelSetup model(bool tied) {
    const Json sizes{{"hidden_size", 64},
                     {"num_hidden_layers", 4},
                     {"num_attention_heads", 8},
                     {"num_key_value_heads", 4},
                     {"head_dim", 8},
                     {"intermediate_size", 128},
                     {"vocab_size", 96},
                     {"tie_word_embeddings", tied},
                     {"max_position_embeddings", 64}};
    const families::Families all = need(families::Families::load());
    const families::Family& found = *need(all.find("llama"));
    ModelSetup setup;
    setup.hf_config = need(families::complete_hf_config(found, sizes));
    setup.native = need(families::native_config(found, setup.hf_config));
    setup.config = need(families::model_config(found, setup.native));
    return setup;
}

World world_of(const spec::ParallelSpec& parallel, const ModelSetup& setup) {
    return {.config = setup.config,
            .schedule = need(plan::schedule_of(parallel, kMicrobatches / parallel.dp)),
            .dp = parallel.dp,
            .tp = parallel.tp,
            .steps = kSaved,
            .zero = parallel.zero,
            .split = stage_split(parallel),
            .saves_after = kSaved,
            .model = &setup,
            .parallel = parallel,
            .evaluates = false};
}

// Returns the bytes of the weights and of the optimizer state that a rank stores.
std::int64_t stored_bytes(TrainStep& step) {
    std::int64_t elements = 0;
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        for (const at::Tensor& weight : step.chunks()[chunk].parameters().weight)
            elements += weight.numel();
        for (const StateTensors& kind : step.optimizers()[chunk].state().kinds)
            for (const at::Tensor& state : kind.of)
                if (state.defined()) elements += state.numel();
    }
    return elements * std::int64_t{sizeof(double)};
}

struct Bytes {
    std::int64_t read = 0, stored = 0;  // of all ranks
};

// Loads the checkpoint on all ranks of `world`, without a step.
Bytes load(World world, const std::filesystem::path& saved) {
    Bytes bytes;
    world.first_step = world.steps;
    world.saves_after = 0;
    world.starts_from = saved;
    world.load = [&](TrainStep& step) {
        restore(saved, step, *world.model);
        bytes.stored += stored_bytes(step);
    };
    const std::int64_t before = bytes_read();
    train_locally(job_of(world));
    bytes.read = bytes_read() - before;
    return bytes;
}

TEST(LoadBytes, EachRankReadsOnlyItsPartOfAnyLayoutsCheckpoint) {
    const std::vector<spec::ParallelSpec> layouts = {{},
                                                     {.tp = 4},
                                                     {.dp = 2, .tp = 2, .zero = 1},
                                                     {.dp = 4, .zero = 3},
                                                     {.dp = 2, .tp = 2, .zero = 3},
                                                     {.dp = 2, .tp = 2, .pp = 2},
                                                     {.pp = 2, .vpp = 2}};
    for (const bool tied : {false, true}) {
        const ModelSetup setup = model(tied);
        const Scratch scratch("load-bytes");
        for (std::size_t i = 0; i < layouts.size(); ++i) {
            World world = world_of(layouts[i], setup);
            world.saves_to = scratch / i;
            train_locally(job_of(world));
        }
        for (std::size_t to = 0; to < layouts.size(); ++to) {
            const World world = world_of(layouts[to], setup);
            const Bytes same = load(world, local_checkpoint(scratch / to));
            EXPECT_GE(same.read, 0.9 * static_cast<double>(same.stored)) << to;
            // The replicas of norms and of tied embeddings are read too, and compared.
            if (!tied) {
                EXPECT_LE(same.read, 1.1 * static_cast<double>(same.stored)) << to;
            }
            for (std::size_t from = 0; from < layouts.size(); ++from) {
                const Bytes other = load(world, local_checkpoint(scratch / from));
                EXPECT_LE(other.read, 1.2 * static_cast<double>(same.read))
                    << "layout " << to << " from the checkpoint of layout " << from;
                std::printf("%s to %zu from %zu: %lld bytes, %.3f of the same layout's\n",
                            tied ? "tied" : "not tied", to, from,
                            static_cast<long long>(other.read),
                            static_cast<double>(other.read) / static_cast<double>(same.read));
            }
        }
    }
}

}  // namespace
}  // namespace roll::train
