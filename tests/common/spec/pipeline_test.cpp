#include "common/spec/check/pipeline.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "common/spec/train/pipeline_layout.hpp"

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
    EXPECT_EQ(problems({}, {.microbatches = 5, .layers = 7}), "");
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
                 {.microbatches = 3, .layers = 30});
    EXPECT_EQ(std::ranges::count(all, '\n'), 3) << all;
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
    EXPECT_EQ(problems({.pp = 4, .vpp = 2, .group = 3}),
              "parallel.group is 3; allowed: 4 (parallel.pp) or more\n");
    EXPECT_EQ(problems({.pp = 2, .group = 4}),
              "parallel.group is 4, but only an interleaved pipeline has groups; remove group, or "
              "set pp and vpp to 2 or more and schedule to auto or interleaved\n");
}

// The examples are those in Megatron's pipeline_parallel_layer_layout.py.
TEST(PipelineLayout, UnrollsRepetitionsAsMegatronDoes) {
    using Parts = std::vector<std::string>;
    EXPECT_EQ(layout_parts("xy").error().message,
              "has a 'x'; allowed: E, t, m, L, |, *N and (...)*N");
    EXPECT_EQ(layout_parts("Ettt|(tt|)*2,m|L").value(), (Parts{"Ettt", "tt", "tt", "m", "L"}));
    EXPECT_EQ(layout_parts("Et,(t|tt)*2,L").value(), (Parts{"Ett", "ttt", "ttL"}));
    EXPECT_EQ(layout_parts("E t*3 | t*4, L").value(), (Parts{"Ettt", "ttttL"}));
    EXPECT_EQ(layout_parts("E||L").value(), (Parts{"E", "", "L"}));
    EXPECT_EQ(layout_parts("Et|*3L").value(), (Parts{"Et", "", "", "L"}));
    for (const char* wrong : {"Et*|L", "E(t|L", "E(t)L", "t*999999L", "E(t*9999)*9999L"})
        EXPECT_FALSE(layout_parts(wrong)) << wrong;
    EXPECT_EQ(layout_string({3, 0, 4}), "E,t*3||t*4,L");
    EXPECT_EQ(layout_parts(layout_string({3, 0, 0})).value(), (Parts{"Ettt", "", "L"}));
}

TEST(PipelineLayout, MustFitTheModelAndThePipeline) {
    const PipelineSizes sizes{.layers = 7};
    const auto with = [](const char* layout) {
        return ParallelSpec{.pp = 2, .pipeline_layout = layout};
    };
    EXPECT_EQ(problems(with("Et*3|t*4L"), sizes), "");
    EXPECT_EQ(
        problems(with("Et*3|t*3L"), sizes),
        "parallel.pipeline_layout is \"Et*3|t*3L\", which has 6 layers (t), but the model has "
        "7 (num_hidden_layers)\n");
    EXPECT_EQ(problems(with("Et*3|t*3|tL"), sizes),
              "parallel.pipeline_layout is \"Et*3|t*3|tL\", which has 3 parts; allowed: pp 2 x vpp "
              "1 = 2\n");
    EXPECT_EQ(
        problems(with("t*3|t*4"), sizes),
        "parallel.pipeline_layout is \"t*3|t*4\", which must begin with E and end with L, and "
        "have no other E or L\n");
    for (const char* wrong : {"|Et*7L", "Et*7L|"})
        EXPECT_NE(problems(with(wrong), sizes).find("must begin with E"), std::string::npos);
    EXPECT_NE(problems(with("Et*3|t*4mL"), sizes).find("multi-token prediction"),
              std::string::npos);
    EXPECT_NE(problems(with("Et*3|x"), sizes).find("has a 'x'"), std::string::npos);
    ParallelSpec both = with("Et*3|t*4L");
    both.first_layers = 3;
    EXPECT_NE(problems(both, sizes).find("remove first_layers"), std::string::npos);
    both = with("Et*3|t*4L");
    both.stages_by_cost = true;
    EXPECT_NE(problems(both, sizes).find("parallel.stages is cost, but"), std::string::npos);
}

TEST(PipelineLayout, StagesByCostNeedALayerInEachPartButTheLast) {
    EXPECT_EQ(problems({.pp = 4, .stages_by_cost = true}, {.layers = 3}), "");
    EXPECT_EQ(problems({.pp = 5, .stages_by_cost = true}, {.layers = 3}),
              "parallel.pp is 5, vpp 1, which makes 5 parts of the pipeline, but the model has 3 "
              "layers (num_hidden_layers); allowed: at most 4 parts\n");
}

TEST(ScheduleFile, ExcludesOtherSchedules) {
    EXPECT_EQ(problems({.pp = 2, .schedule_file = "/f.csv"}), "");
    EXPECT_EQ(problems({.pp = 2, .schedule = Schedule::Gpipe, .schedule_file = "/f.csv"}),
              "parallel.schedule_file is set, but parallel.schedule or parallel.group also chooses "
              "the schedule; keep only one of these keys\n");
    EXPECT_EQ(
        problems({.schedule_file = "/f.csv"}),
        "parallel.schedule_file is set, but parallel.pp is 1; set parallel.pp to 2 or more\n");
}

}  // namespace
}  // namespace roll::spec
