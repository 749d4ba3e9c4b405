// Options and code of `rollctl sweep`.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/commands/group.hpp"
#include "cli/look.hpp"

namespace roll::cli {

// Submits job files that have the key `sweep`.
Result<int> run_sweep(const Context& context, const SubmitOptions& options);
// Adds the subcommands show and best. `context` is read when a command runs.
void add_sweep_commands(CLI::App& sweep, const AddCommand& command, const Context& context);

// Returns roll.sweep/1. `first` is the job of the first trial, as `show` returns it. `jobs` are the
// summaries of the trials. `rows_of` returns the rows of the metrics.jsonl in an output directory.
// Fails with InvalidArgument if the first job is not the first trial of a sweep.
Result<Json> sweep_json(const Json& first, const Json& jobs,
                        const std::function<std::vector<Json>(const std::string&)>& rows_of);
std::string sweep_text(const Json& sweep, const Look& look);
std::string sweep_csv(const Json& sweep);

}  // namespace roll::cli
