#include "worker/train/pipeline/stage_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/spec/train/pipeline_layout.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/trained_chunks.hpp"

namespace roll::train {
namespace {

// The best division of the first layers into a number of parts: the cost of its costliest part, and
// the sum of the squares of the costs of all parts.
struct Division {
    double most = std::numeric_limits<double>::infinity(), squares = 0;
    std::size_t last_begin = 0;  // first layer of the last part

    bool is_better_than(const Division& other) const {
        // Costs that differ only by rounding are equal.
        const double margin = 1e-9 * most;
        if (most < other.most - margin) return true;
        return most <= other.most + margin && squares < other.squares * (1 - 1e-9);
    }
};

double total(const plan::Costs& costs) {
    return costs.forward + costs.backward_input + costs.backward_weight;
}

}  // namespace

std::vector<std::int64_t> divided_by_cost(std::span<const double> layers, double output,
                                          int parts) {
    const std::size_t count = layers.size();
    std::vector<double> before(count + 1, 0);  // cost of the layers before each layer
    std::partial_sum(layers.begin(), layers.end(), before.begin() + 1);
    std::vector<std::vector<Division>> best(static_cast<std::size_t>(parts) + 1,
                                            std::vector<Division>(count + 1));
    best[0][0].most = 0;
    for (std::size_t part = 1; part < best.size(); ++part) {
        const bool last = part + 1 == best.size();
        for (std::size_t end = last ? count : part; end <= count; ++end)
            for (std::size_t begin = 0; begin + (last ? 0 : 1) <= end; ++begin) {
                const Division& rest = best[part - 1][begin];
                // the first layers cannot be divided in this way
                if (std::isinf(rest.most)) continue;
                const double cost = before[end] - before[begin] + (last ? output : 0);
                const Division one{std::max(rest.most, cost), rest.squares + cost * cost, begin};
                if (one.is_better_than(best[part][end])) best[part][end] = one;
            }
    }
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(parts));
    std::size_t end = count;
    for (std::size_t part = numbers.size(); part > 0; --part) {
        const std::size_t begin = best[part][end].last_begin;
        numbers[part - 1] = static_cast<std::int64_t>(end - begin);
        end = begin;
    }
    return numbers;
}

spec::ParallelSpec with_stages(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    spec::ParallelSpec parallel = spec.parallel;
    const int parts = parallel.pp * parallel.vpp;
    if (!parallel.stages_by_cost || !parallel.pipeline_layout.empty() || parts == 1 ||
        parts > config.layers + 1)
        return parallel;
    const std::int64_t lowest = lowest_trained(config, spec.model.freeze);
    std::vector<plan::StagePart> each;
    for (std::int64_t i = 0; i <= config.layers; ++i) {
        const bool is_output = i == config.layers;
        each.push_back({.layers = is_output ? 0 : 1,
                        .first = i == 0,
                        .last = is_output,
                        .tp = parallel.tp,
                        .first_layer = i,
                        .lowest = lowest,
                        .below = !is_output && i < lowest ? 1 : 0});
    }
    plan::Recomputed recompute;
    if (parallel.recompute != spec::Recompute::Auto)
        recompute = plan::recomputed_of(parallel, {{0, config.layers}});
    std::vector<double> costs;
    for (const plan::Costs& one : plan::stage_costs(config, spec, each, recompute))
        costs.push_back(total(one));
    const double output = costs.back();
    costs.pop_back();
    parallel.stages_by_cost = false;
    parallel.pipeline_layout = spec::layout_string(divided_by_cost(costs, output, parts));
    return parallel;
}

}  // namespace roll::train
