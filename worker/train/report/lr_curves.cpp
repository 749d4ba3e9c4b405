#include "worker/train/report/lr_curves.hpp"

#include <algorithm>
#include <cstdio>

#include "worker/plan/lr_schedule.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kCompared = 1024;  // maximum number of steps at which the rates are compared
constexpr std::int64_t kColumns = 6;

// Returns the learning rate of a step, counted from 1. If the run ends before this step, returns a
// negative number.
double rate_of(const spec::TrainSpec& spec, std::int64_t step) {
    return step > spec.steps ? -1 : plan::learning_rate(spec.optimizer, spec.steps, step - 1);
}

// Returns up to `count` evenly spaced steps from `first` to `last`.
std::vector<std::int64_t> steps_between(std::int64_t first, std::int64_t last, std::int64_t count) {
    std::vector<std::int64_t> steps;
    const std::int64_t parts = std::max<std::int64_t>(std::min(count - 1, last - first), 1);
    for (std::int64_t i = 0; i <= parts; ++i) {
        const std::int64_t step = first + (last - first) * i / parts;
        if (steps.empty() || step > steps.back()) steps.push_back(step);
    }
    return steps;
}

template <class Cell>
std::string row_of(const char* name, const std::vector<std::int64_t>& steps, const Cell& cell) {
    std::string row = name;
    row.resize(16, ' ');
    for (const std::int64_t step : steps) {
        const std::string text = cell(step);
        row += std::string(text.size() < 12 ? 12 - text.size() : 1, ' ') + text;
    }
    return row;
}

}  // namespace

std::vector<std::string> changed_rates(const spec::TrainSpec& before, const spec::TrainSpec& now,
                                       std::int64_t step) {
    const std::int64_t first = std::max<std::int64_t>(step, 1);
    const std::int64_t last = std::max({before.steps, now.steps, first});
    const std::int64_t shared = std::min(before.steps, now.steps);
    const auto differs = [&](std::int64_t one) {
        return rate_of(before, one) != rate_of(now, one);
    };
    if (first > shared || !std::ranges::any_of(steps_between(first, shared, kCompared), differs))
        return {};
    const auto steps = steps_between(first, last, kColumns);
    const auto number = [](const std::int64_t one) { return std::to_string(one); };
    const auto rates = [](const spec::TrainSpec& spec) {
        return [&spec](std::int64_t one) -> std::string {
            const double rate = rate_of(spec, one);
            char text[32];
            std::snprintf(text, sizeof text, "%.4g", rate);
            return rate < 0 ? "ended" : text;
        };
    };
    std::vector<std::string> lines = {
        "learning rate: starting at step " + std::to_string(step) +
            ", the rate differs from the rate of the job that wrote the checkpoint (train.steps "
            "or train.optimizer changed):",
        row_of("  step", steps, number), row_of("  job before", steps, rates(before)),
        row_of("  this job", steps, rates(now))};
    if (now.optimizer.warmup_steps > step)
        lines.push_back("learning rate: the warm-up lasts until step " +
                        std::to_string(now.optimizer.warmup_steps));
    return lines;
}

}  // namespace roll::train
