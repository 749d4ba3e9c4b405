// Options and code of `rollctl sweep`.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/look.hpp"

namespace roll::cli {

// Submits job files that have the key `sweep`.
Result<int> run_sweep(const Context& context, const SubmitOptions& options);
struct SweepOptions {
    std::string selector;
    bool csv = false;
};
// Shows the trials of a sweep with their parameters, states and metrics.
Result<int> run_sweep_show(const Context& context, const SweepOptions& options);
// Prints the trial with the best value of the metric.
Result<int> run_sweep_best(const Context& context, const std::string& selector);

// Returns roll.sweep/1. `first` is the job of the first trial as `show` returns it, `jobs` are the
// summaries of the trials. `rows_of` returns the rows of the metrics.jsonl in an output directory.
// Fails with InvalidArgument if the first job is not the first trial of a sweep.
Result<Json> sweep_json(const Json& first, const Json& jobs,
                        const std::function<std::vector<Json>(const std::string&)>& rows_of);
std::string sweep_text(const Json& sweep, const Look& look);
std::string sweep_csv(const Json& sweep);

}  // namespace roll::cli
