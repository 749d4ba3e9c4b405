#include "common/spec/check/pipeline.hpp"

#include <algorithm>
#include <sstream>

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
              "parallel.pp is 4, vpp 1, which does not divide the 30 layers of the model "
              "(num_hidden_layers); the nearest valid settings: pp 3 with vpp 1, pp 5 with vpp 1, "
              "account_for_embedding and account_for_loss or pp 4 with first_layers 7 and "
              "last_layers 7\n");
    EXPECT_EQ(
        problems({.pp = 4, .vpp = 2}, {.layers = 12}),
        "parallel.pp is 4, vpp 2, which does not divide the 12 layers of the model "
        "(num_hidden_layers); the nearest valid settings: pp 4 with vpp 1, pp 3 with vpp 2 or pp "
        "6 with vpp 2\n");
    const ParallelSpec uneven{.pp = 4, .first_layers = 7, .last_layers = 7};
    EXPECT_EQ(problems(uneven, {.layers = 30}), "");
    EXPECT_EQ(
        problems(uneven, {.layers = 31}),
        "parallel.pp is 4, vpp 1, first_layers 7, last_layers 7, which does not divide the 31 "
        "layers of the model (num_hidden_layers); the nearest valid settings: pp 1 with vpp 1, pp "
        "31 with vpp 1, account_for_loss or pp 4 with first_layers 8 and last_layers 7\n");
    const ParallelSpec ends{
        .pp = 16, .vpp = 8, .account_for_embedding = true, .account_for_loss = true};
    EXPECT_EQ(problems(ends, {.layers = 126}), "");
    EXPECT_NE(problems(ends, {.layers = 128}), "");
}

// Every layout that a refusal names works.
TEST(Pipeline, TheNearestLayoutsDivideTheLayers) {
    for (int pp = 1; pp <= 16; ++pp)
        for (int vpp = 1; vpp <= 4; ++vpp)
            for (std::int64_t layers = 1; layers <= 40; ++layers) {
                const auto problem = undivided_layers(ParallelSpec{.pp = pp, .vpp = vpp}, layers);
                if (!problem) continue;
                std::istringstream words(problem->message.substr(problem->message.find(':')));
                ParallelSpec named;
                int layouts = 0;
                for (std::string word; words >> word;) {
                    if (word == "pp") words >> named.pp, named.vpp = vpp;
                    if (word == "vpp") words >> named.vpp;
                    if (word == "first_layers") words >> named.first_layers;
                    if (word == "last_layers") words >> named.last_layers;
                    const bool whole = word == "last_layers" || word == "vpp";
                    if (!whole) continue;
                    EXPECT_FALSE(undivided_layers(named, layers)) << problem->message;
                    named = {};
                    ++layouts;
                }
                EXPECT_GT(layouts, 0) << problem->message << pp << vpp;
            }
}

TEST(Pipeline, RefusesAnIncompleteGroupOfMicrobatchesWithTheNearest) {
    const ParallelSpec p{.pp = 4, .vpp = 2, .schedule = Schedule::Interleaved};
    EXPECT_EQ(problems(p, {.microbatches = 10, .rows = 6}),
              "parallel.vpp is 2, so the schedule takes micro-batches in groups of 4. With 10 "
              "micro-batches "
              "for each replica (global_batch_size / micro_batch_size / dp), the last group has "
              "fewer micro-batches than pp 4; the nearest valid numbers of micro-batches are 8 "
              "(global_batch_size 48) or 12 (global_batch_size 72); with 10 micro-batches, "
              "parallel.group 5 is valid; or set vpp to 1\n");
    EXPECT_EQ(problems({.pp = 4, .vpp = 2}, {.microbatches = 10}), "");
    EXPECT_EQ(
        problems({.pp = 4, .vpp = 2}, {.microbatches = 3}),
        "parallel.vpp is 2, so the schedule takes micro-batches in groups of 4. With 3 "
        "micro-batches "
        "for each replica (global_batch_size / micro_batch_size / dp), the last group has "
        "fewer micro-batches than pp 4; the nearest valid numbers of micro-batches are 4; or set "
        "vpp to 1\n");
    EXPECT_EQ(problems({.pp = 2, .vpp = 3, .schedule = Schedule::Gpipe}, {.microbatches = 3}), "");
}

TEST(Pipeline, TellsAllProblemsAtOnce) {
    const std::string all =
        problems({.pp = 4, .vpp = 3, .schedule = Schedule::ZeroBubbleV, .group = 2},
                 {.microbatches = 3, .layers = 30, .on_gpus = true});
    EXPECT_EQ(std::ranges::count(all, '\n'), 4) << all;
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
    EXPECT_EQ(
        problems({.pp = 2, .schedule = Schedule::ZeroBubbleV}),
        "parallel.schedule is zb-v, which has two chunks per stage, but parallel.vpp is 1; set "
        "parallel.vpp to 2\n");
    EXPECT_EQ(problems({.pp = 2, .vpp = 2, .schedule = Schedule::DualPipeV}, {.microbatches = 3}),
              "parallel.schedule is dualpipe-v, which needs at least 2 x pp = 4 micro-batches per "
              "replica, but there are 3; use zb-v, or a larger train.global_batch_size\n");
    EXPECT_EQ(
        problems({.pp = 4, .vpp = 2, .group = 3}),
        "parallel.group is 3; allowed: 4 (pp) or more; the key also requires pp >= 2, vpp >= 2 "
        "and the schedule interleaved or auto\n");
    EXPECT_EQ(problems({.pp = 2}, {.on_gpus = true}),
              "parallel.pp is 2, but pipeline stages on GPUs are not supported yet, because their "
              "sends and receives can deadlock in NCCL; allowed: 1\n");
}

}  // namespace
}  // namespace roll::spec
