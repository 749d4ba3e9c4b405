// Compares the trials of a sweep by the metric that they report. Pure functions.
#pragma once

#include <functional>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll {

// The values of one metric in a trial's metrics.jsonl. A null member has no value yet.
struct TrialMetric {
    Json last, best, best_step, step;

    // Updates the values with the next row of the trial's metrics.jsonl.
    void add(const Json& row, const std::string& metric, bool maximize);
};

// Returns the values of `metric` in the metrics.jsonl of an output directory.
using ReadTrial =
    std::function<TrialMetric(const std::string& output, const std::string& metric, bool maximize)>;

// Returns JSON with the schema roll.sweep/1. `first` is the job of the first trial, as `show`
// returns it. `jobs` are the summaries of the trials. Fails with InvalidArgument if the first job
// is not the first trial of a sweep.
Result<Json> sweep_json(const Json& first, const Json& jobs, const ReadTrial& read_trial);

// Returns the number of trials of a sweep. `first` is the job of the first trial. Returns 0 if this
// job is not the first trial of a sweep.
std::size_t trials_of(const Json& first);

}  // namespace roll
