#include "common/spec/pipeline.hpp"

#include <gtest/gtest.h>

namespace roll::spec {
namespace {

std::string problems(const ParallelSpec& parallel, const PipelineSizes& sizes = {}) {
    std::string text;
    for (const Problem& problem : pipeline_problems(parallel, sizes))
        text += problem.path + " " + problem.message + "\n";
    return text;
}

TEST(Pipeline, AcceptsStagesThatDivideLayersAndMicrobatches) {
    const PipelineSizes sizes{.microbatches = 6, .layers = 12};
    for (const Schedule schedule :
         {Schedule::Auto, Schedule::Gpipe, Schedule::ZeroBubbleH1, Schedule::OneForwardOneBackward})
        EXPECT_EQ(problems({.pp = 4, .schedule = schedule}, sizes), "");
    EXPECT_EQ(problems({.pp = 3, .vpp = 2, .schedule = Schedule::Interleaved}, sizes), "");
    EXPECT_EQ(problems({.pp = 3, .vpp = 4}, sizes), "");
    EXPECT_EQ(problems({}, {.microbatches = 5, .layers = 7, .on_gpus = true}), "");
}

TEST(Pipeline, RefusesWhatDoesNotDivideWithTheNumbers) {
    EXPECT_EQ(problems({.pp = 4}, {.layers = 30}),
              "parallel.pp is 4 and vpp is 1, so the 30 layers of the model (num_hidden_layers) "
              "must be a multiple of 4; or set parallel.first_layers or parallel.last_layers\n");
    const ParallelSpec uneven{.pp = 4, .first_layers = 7, .last_layers = 7};
    EXPECT_EQ(problems(uneven, {.layers = 30}), "");
    EXPECT_EQ(problems(uneven, {.layers = 31}),
              "parallel.pp is 4, vpp 1, first_layers 7 and last_layers 7, which do not divide the "
              "31 layers of the model (num_hidden_layers): the stages that first_layers and "
              "last_layers do not name need equally many layers, and each stage a multiple of "
              "vpp\n");
    EXPECT_EQ(problems({.pp = 2, .vpp = 3}, {.microbatches = 3}),
              "parallel.vpp is 3, but the 3 micro-batches of a replica (global_batch_size / "
              "micro_batch_size / dp) are not a multiple of pp 2; change these sizes, or set vpp "
              "to 1\n");
    EXPECT_EQ(problems({.pp = 2, .vpp = 3, .schedule = Schedule::Gpipe}, {.microbatches = 3}), "");
}

TEST(Pipeline, RefusesSettingsThatContradictEachOther) {
    EXPECT_EQ(problems({.vpp = 2}),
              "parallel.vpp is 2, but parallel.pp is 1; allowed: 1, or set parallel.pp to 2 or "
              "more\n");
    EXPECT_EQ(problems({.pp = 2, .schedule = Schedule::Interleaved}),
              "parallel.schedule is interleaved, but parallel.vpp is 1; set parallel.vpp to 2 or "
              "more, or the schedule to 1f1b\n");
    EXPECT_EQ(problems({.pp = 2, .vpp = 3, .schedule = Schedule::OneForwardOneBackward}),
              "parallel.schedule is 1f1b, which has one chunk per stage, but parallel.vpp is 3; "
              "allowed with this vpp: auto, interleaved, gpipe\n");
    EXPECT_EQ(problems({.pp = 2}, {.on_gpus = true}),
              "parallel.pp is 2, but pipeline stages on GPUs are not supported yet, because their "
              "sends and receives can deadlock in NCCL; allowed: 1\n");
}

}  // namespace
}  // namespace roll::spec
