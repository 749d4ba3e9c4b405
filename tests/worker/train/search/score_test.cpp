// Compares the estimate of a layout's memory with the plan of that layout, for jobs whose optimizer
// or frozen weights need less memory than AdamW on all weights.
#include "worker/train/search/score.hpp"

#include <gtest/gtest.h>

#include "common/spec/train/lora.hpp"
#include "common/spec/train/read_lora.hpp"
#include "worker/plan/cost.hpp"

namespace roll::train {
namespace {

spec::ModelConfig model() {
    return {.family = "llama",
            .hidden = 512,
            .layers = 16,
            .heads = 8,
            .kv_heads = 4,
            .head_dim = 64,
            .intermediate = 2048,
            .vocab = 8192,
            .positions_max = 256};
}

// Expects that the estimate is near the plan for one rank, and for ranks that share the model.
void expect_near_plan(const char* name, spec::TrainSpec job, const spec::ModelConfig& config) {
    job.seq_length = 128;
    job.micro_batch_size = 1;
    job.global_batch_size = 8;
    job.steps = 1;
    job.checkpoint_buffer_mib = 0;  // the estimate leaves out the copy for a checkpoint
    const JobBytes bytes = job_bytes(job, config, false);
    const spec::ParallelSpec layouts[] = {{},
                                          {.tp = 2},
                                          {.pp = 2},
                                          {.cp = 2},
                                          {.dp = 2, .zero = 1},
                                          {.dp = 2, .zero = 2},
                                          {.dp = 2, .zero = 3},
                                          {.dp = 4, .tp = 2, .zero = 3}};
    for (const spec::ParallelSpec& layout : layouts) {
        job.parallel = layout;
        const auto planned = static_cast<double>(measure(job, config, false).memory);
        const auto estimated = static_cast<double>(estimate(job, config, bytes).memory);
        EXPECT_NEAR(estimated / planned, 1, 0.3)
            << name << " dp " << layout.dp << " tp " << layout.tp << " pp " << layout.pp << " zero "
            << layout.zero << " cp " << layout.cp;
    }
}

TEST(Score, TheEstimateOfMemoryIsNearThePlan) {
    spec::TrainSpec job;
    expect_near_plan("AdamW", job, model());
    job.precision = spec::Precision::Fp16;
    expect_near_plan("AdamW in float16", job, model());
    job.precision = spec::Precision::Fp32;
    for (const auto kind : {spec::OptimizerKind::Sgd, spec::OptimizerKind::AdamW8bit}) {
        job.optimizer.kind = kind;
        expect_near_plan(spec::name_of(kind).data(), job, model());
    }
    job.optimizer.kind = spec::OptimizerKind::AdamW;
    spec::ModelConfig adapted = model();
    adapted.lora = spec::lora_spec({{"r", 8}, {"alpha", 8}});
    expect_near_plan("LoRA", job, adapted);
    adapted.lora = spec::lora_spec({{"r", 8}, {"alpha", 8}, {"base", "nf4"}});
    expect_near_plan("QLoRA", job, adapted);
}

// A rank's products have the rows of one context-parallel rank, and both scores count the keys and
// values that the ranks send each other.
TEST(Score, ContextParallelRanksComputeTheirOwnRowsAndSendKeysAndValues) {
    spec::TrainSpec job;
    job.seq_length = 256;
    job.micro_batch_size = 1;
    job.global_batch_size = 4;
    job.steps = 1;
    job.parallel.cp = 2;
    const LayoutScore measured = measure(job, model(), false);
    const LayoutScore estimated = estimate(job, model(), job_bytes(job, model(), false));
    const double rows = 4 * (128 + kRowsMore);
    const double flops = plan::flops_per_token(model(), job.seq_length).causal * rows;
    const double sent = kFlopsPerByte * static_cast<double>(measured.sent);
    EXPECT_NEAR(measured.time / (flops + sent), 1, 1e-9);
    EXPECT_NEAR(static_cast<double>(estimated.sent) / static_cast<double>(measured.sent), 1, 0.01);
}

}  // namespace
}  // namespace roll::train
