// Stages that are divided by the cost of their layers.
#include "worker/train/pipeline/stage_choice.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "common/spec/train/pipeline_layout.hpp"
#include "worker/train/pipeline/job_schedule.hpp"

namespace roll::train {
namespace {

using Numbers = std::vector<std::int64_t>;

double costliest(const std::vector<double>& layers, double output, const Numbers& numbers) {
    double most = 0;
    std::size_t next = 0;
    for (std::size_t part = 0; part < numbers.size(); ++part) {
        double cost = part + 1 == numbers.size() ? output : 0;
        for (std::int64_t i = 0; i < numbers[part]; ++i) cost += layers[next++];
        most = std::max(most, cost);
    }
    return most;
}

// Returns the cost of the costliest part of the best division, from all divisions.
double best_of_all(const std::vector<double>& layers, double output, std::size_t parts) {
    double best = 1e300;
    Numbers numbers;
    const std::function<void(std::int64_t)> extend = [&](std::int64_t left) {
        if (numbers.size() + 1 == parts) {
            numbers.push_back(left);
            best = std::min(best, costliest(layers, output, numbers));
            numbers.pop_back();
            return;
        }
        for (std::int64_t count = 1; count <= left; ++count) {
            numbers.push_back(count);
            extend(left - count);
            numbers.pop_back();
        }
    };
    extend(static_cast<std::int64_t>(layers.size()));
    return best;
}

TEST(StageChoice, FindsTheBestOfAllDivisions) {
    std::uint32_t state = 1;
    const auto drawn = [&] {
        state = state * 1664525 + 1013904223;
        return 1.0 + static_cast<double>(state >> 24) / 64;
    };
    for (int parts = 2; parts <= 5; ++parts)
        for (int count = parts - 1; count <= 9; ++count) {
            std::vector<double> layers(static_cast<std::size_t>(count));
            std::ranges::generate(layers, drawn);
            const double output = 2 * drawn();
            const Numbers numbers = divided_by_cost(layers, output, parts);
            EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}), count);
            EXPECT_GE(*std::min_element(numbers.begin(), numbers.end() - 1), 1);
            EXPECT_DOUBLE_EQ(costliest(layers, output, numbers),
                             best_of_all(layers, output, static_cast<std::size_t>(parts)));
        }
}

TEST(StageChoice, SpreadsEqualLayersEvenlyAndLeavesTheOutputAlone) {
    const std::vector<double> layers(8, 1.0);
    EXPECT_EQ(divided_by_cost(layers, 0, 4), (Numbers{2, 2, 2, 2}));
    EXPECT_EQ(divided_by_cost(layers, 4, 3), (Numbers{4, 4, 0}));
    EXPECT_EQ(divided_by_cost(layers, 0, 9), (Numbers{1, 1, 1, 1, 1, 1, 1, 1, 0}));
}

// SmolLM2's sizes: 30 layers and a large vocabulary. The output layer costs as much as 5 layers, so
// equal numbers of layers would make the last stage the slowest.
TEST(StageChoice, BalancesAModelWithALargeVocabulary) {
    spec::TrainSpec spec;
    spec.seq_length = 512;
    spec.global_batch_size = 8;
    spec.micro_batch_size = 1;
    spec.parallel.pp = 3;
    spec.parallel.stages_by_cost = true;
    spec::ModelConfig config;
    config.layers = 30, config.hidden = 576, config.intermediate = 1536;
    config.heads = 9, config.kv_heads = 3, config.head_dim = 64, config.vocab = 49152;
    config.positions_max = 512, config.tied = true;
    const auto imbalance = [&](const spec::TrainSpec& one) {
        const JobPipeline job = job_pipeline(one, config);
        return plan::check(job.schedule, job.costs).value().imbalance;
    };
    const spec::ParallelSpec chosen = with_stages(spec, config);
    const auto parts = spec::layout_parts(chosen.pipeline_layout).value();
    EXPECT_GT(std::ranges::count(parts.front(), 't'), std::ranges::count(parts.back(), 't'));
    EXPECT_LE(imbalance(spec), 1.05);
    spec::TrainSpec even = spec;
    even.parallel.stages_by_cost = false;
    EXPECT_GT(imbalance(even), 1.1);
    // A chosen layout is kept.
    spec.parallel = chosen;
    EXPECT_EQ(with_stages(spec, config).pipeline_layout, chosen.pipeline_layout);
}

}  // namespace
}  // namespace roll::train
