// Tests how a job is cut to the least sizes: each rule of its layout still holds, and so does what
// is different about its layers.
#include "worker/train/prove/cut.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/tensor.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/pipeline/job_schedule.hpp"

namespace roll::train {
namespace {

spec::ModelConfig large_model() {
    return {.family = "llama",
            .hidden = 4096,
            .layers = 32,
            .heads = 32,
            .kv_heads = 8,
            .head_dim = 128,
            .intermediate = 14336,
            .vocab = 128256,
            .positions_max = 8192};
}

spec::TrainSpec job_with(const spec::ParallelSpec& parallel, std::int64_t microbatches = 32) {
    spec::TrainSpec spec;
    spec.parallel = parallel;
    spec.seq_length = 4096;
    spec.micro_batch_size = 4;
    spec.global_batch_size = 4 * microbatches * parallel.dp;
    return spec;
}

SmallJob cut(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    const SmallJob job = cut_job(spec, config, job_pipeline(spec, config, false).schedule);
    EXPECT_TRUE(spec::tensor_problems(job.spec.parallel, spec::tensor_sizes(job.config)).empty());
    EXPECT_TRUE(spec::pipeline_problems(job.spec.parallel, {.microbatches = job.spec.microbatches(),
                                                            .layers = job.config.layers})
                    .empty());
    return job;
}

double cut_to(const SmallJob& job, const std::string& key) {
    const auto found = std::ranges::find(job.cuts, key, &Cut::key);
    return found == job.cuts.end() ? -1 : found->to;
}

TEST(Cut, WidthsAreSmallAndDivideAsBefore) {
    const SmallJob job =
        cut(job_with({.dp = 2, .tp = 8, .pp = 2, .sequence = true}), large_model());
    EXPECT_EQ(job.config.kv_heads, 8);  // one on each rank, as in the job
    EXPECT_EQ(job.config.heads, 16);    // still groups of queries
    EXPECT_EQ(job.config.intermediate, 40);
    EXPECT_EQ(job.config.hidden % 2, 0);
    EXPECT_EQ(job.config.vocab % 8, 0);
    EXPECT_EQ(job.spec.micro_batch_size * job.spec.seq_length % 8, 0);
    EXPECT_LE(job.config.hidden, 32);
    EXPECT_EQ(cut_to(job, "hidden_size"), static_cast<double>(job.config.hidden));
    EXPECT_EQ(cut_to(job, "parallel.tp"), -1);

    spec::ModelConfig odd = large_model();
    odd.vocab = 50257;
    odd.heads = odd.kv_heads = 24;
    odd.intermediate = 8192 * 3;
    spec::TrainSpec spec = job_with({.dp = 3, .tp = 3});
    spec.seq_length = 1024;
    const SmallJob other = cut(spec, odd);
    EXPECT_NE(other.config.vocab % 3, 0);
    EXPECT_NE(other.spec.seq_length * other.spec.micro_batch_size % 3, 0);
    EXPECT_EQ(other.config.heads, other.config.kv_heads);
    EXPECT_EQ(other.config.kv_heads, 6);
}

TEST(Cut, WideJobsLoseReplicasThenShardsThenStages) {
    const auto axes = [&](spec::ParallelSpec p) {
        p.schedule = spec::Schedule::OneForwardOneBackward;
        const spec::ParallelSpec small = cut(job_with(p), large_model()).spec.parallel;
        return std::vector{small.dp, small.tp, small.pp};
    };
    EXPECT_EQ(axes({.dp = 8, .tp = 4, .pp = 2}), (std::vector{8, 4, 2}));
    EXPECT_EQ(axes({.dp = 16, .tp = 8, .pp = 4}), (std::vector{2, 8, 4}));
    EXPECT_EQ(axes({.dp = 16, .tp = 8, .pp = 8}), (std::vector{2, 2, 8}));
    EXPECT_EQ(axes({.dp = 16, .tp = 8, .pp = 32}), (std::vector{2, 2, 16}));
    EXPECT_EQ(axes({.dp = 128, .tp = 1, .pp = 1}), (std::vector{2, 1, 1}));
}

TEST(Cut, StagesKeepTheirOrderOfSizes) {
    spec::ModelConfig config = large_model();
    config.layers = 30;
    const auto layers = [&](const spec::ParallelSpec& p) {
        const SmallJob job = cut(job_with(p), config);
        std::vector<std::int64_t> counts;
        for (const ChunkSpec& chunk : stage_chunks(job.config, stage_split(job.spec.parallel)))
            counts.push_back(chunk.layer_end - chunk.layer_begin);
        return counts;
    };
    using Counts = std::vector<std::int64_t>;
    EXPECT_EQ(layers({.pp = 4, .first_layers = 7, .last_layers = 7}), (Counts{1, 2, 2, 1}));
    EXPECT_EQ(layers({.pp = 4, .first_layers = 6, .last_layers = 4}), (Counts{2, 3, 3, 1}));
    EXPECT_EQ(layers({.pp = 2, .vpp = 3}), (Counts{1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(layers({.pp = 4, .vpp = 2, .account_for_embedding = true, .account_for_loss = true}),
              (Counts{1, 2, 2, 2, 2, 2, 2, 1}));
    EXPECT_EQ(layers({}), (Counts{2}));
}

TEST(Cut, EachKindOfLayerIsKept) {
    spec::ModelConfig config = large_model();
    config.window = 1024;
    for (int i = 0; i < config.layers; ++i) config.sliding_layers.push_back(i % 6 != 5);
    spec::TrainSpec spec = job_with({});
    spec.model.freeze = {"embedding.*", "decoder.layers.[0-9].*"};
    const SmallJob job = cut(spec, config);
    EXPECT_EQ(job.config.layers, 4);  // sliding or not, frozen or not
    EXPECT_EQ(std::ranges::count(job.config.sliding_layers, true), 2);
    EXPECT_LT(job.config.window, job.spec.seq_length);
    std::vector<ParameterSpec> specs = parameter_specs(job.config, whole_chunk(job.config));
    mark_frozen(specs, job.spec.model.freeze);
    std::vector<bool> frozen(static_cast<std::size_t>(job.config.layers));
    for (const ParameterSpec& one : specs)
        for (std::size_t i = 0; i < frozen.size(); ++i)
            if (one.name.starts_with("decoder.layers." + std::to_string(i) + "."))
                frozen[i] = one.frozen;
    EXPECT_EQ(std::ranges::count(frozen, true), 2);
    EXPECT_TRUE(specs.front().frozen);
    EXPECT_FALSE(specs.back().frozen);
}

TEST(Cut, TheScheduleIsThatOfTheWholeJob) {
    const SmallJob interleaved = cut(job_with({.pp = 4, .vpp = 4}, 64), large_model());
    EXPECT_EQ(interleaved.spec.parallel.schedule, spec::Schedule::Interleaved);
    EXPECT_EQ(interleaved.spec.microbatches(), 8);
    spec::ParallelSpec p{.pp = 4, .vpp = 2, .schedule = spec::Schedule::DualPipeV};
    EXPECT_EQ(cut(job_with(p, 64), large_model()).spec.microbatches(), 8);
    p = {.pp = 2, .vpp = 2, .schedule = spec::Schedule::Interleaved, .group = 4};
    const SmallJob grouped = cut(job_with(p, 64), large_model());
    EXPECT_EQ(grouped.spec.parallel.group, 4);
    EXPECT_EQ(grouped.spec.microbatches(), 8);
    EXPECT_EQ(cut(job_with({}, 1), large_model()).spec.microbatches(), 1);
    spec::ModelConfig deep = large_model();
    deep.layers = 126;
    p = {.dp = 128,
         .tp = 8,
         .pp = 16,
         .vpp = 8,
         .account_for_embedding = true,
         .account_for_loss = true};
    const SmallJob wide = cut(job_with(p, 64), deep);
    EXPECT_EQ(wide.spec.microbatches(), 16);
    EXPECT_EQ(wide.config.layers, 126);
}

}  // namespace
}  // namespace roll::train
