// Sweeps: `sweep` of a job file describes trials, which are copies of the job that differ in some
// keys. A sweep is a job array, and each task of the array is a trial.
//
// The client draws the trials (parse_sweep). rolld and the job's programs only read the trials. The
// client adds the list `sweep.trials` to the document of the array. Entry i of the list maps paths
// of keys, such as "train.optimizer.lr", to their values in trial i. In the document of trial i,
// the keys have these values, and the section `sweep` has the keys `trial` (the number i),
// `parameters`, `metric`, `mode` and `halving`. Only the first trial's document keeps the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

constexpr std::size_t kTrialsMax = 1'000;

// Returns the trials of a checked `sweep` section, in order. A trial maps paths of keys to values.
// Random values have 4 significant digits and depend only on the seed, the number of the trial and
// the key. Adds a problem for each invalid part of the section, and a problem if the section
// describes no trial.
Json draw_trials(const Json& sweep, std::vector<Problem>& problems);

// Sets the keys of `document` that `parameters` names by path. Returns a problem if a path is
// empty or leads through a value that is not a mapping.
std::optional<Problem> set_parameters(Json& document, const Json& parameters);

// Returns whether `trials` is a list of mappings whose keys can be set in the document. A trial
// cannot set `sweep`, because Trials::document() writes into this section.
bool can_set(const Json& trials, Json document);

// The documents of the trials of a sweep.
class Trials {
  public:
    // Returns nullopt if the document of the array has no valid `sweep.trials`.
    static std::optional<Trials> of(const std::string& document);
    std::string document(std::size_t trial) const;
    std::size_t count() const { return trials_.size(); }

  private:
    Json common_;  // the document without the list of trials
    Json trials_;
};

// Successive halving: at each rung (a number of steps), only the best trials continue.
struct Halving {
    std::string metric = "loss";  // key of the metric in metrics.jsonl
    bool maximize = false;        // if true, larger values are better
    int reduction = 3;            // one in `reduction` trials continues
    // steps of the first rung; each further rung has `reduction` times as many
    std::int64_t min_steps = 1;
    friend bool operator==(const Halving&, const Halving&) = default;
};

// Returns the halving settings in the document of a trial; nullopt if there are none.
std::optional<Halving> halving_of(std::string_view document);

// Returns the rungs: the step numbers min_steps * reduction^k for k = 0, 1, ... that are below
// `steps`. If only one of `trials` goes on at a rung, this rung is the last one. `steps` is nullopt
// if the job does not set its number of steps.
std::vector<std::int64_t> rungs(const Halving& halving, std::size_t trials,
                                std::optional<std::int64_t> steps);

// The value of one trial at each rung. nullopt: the trial has not reached the rung, or has no value
// there.
using RungValues = std::vector<std::optional<double>>;

// A trial that halving stops at the rung `rung` (a number of steps). `rank` is the position of the
// trial's value among the known values at this rung; the best value has rank 1. Only the best
// `keep` trials may go on.
struct Stop {
    std::size_t trial = 0;
    std::int64_t rung = 0;
    double value = 0;
    std::size_t rank = 0;
    std::size_t keep = 0;
    friend bool operator==(const Stop&, const Stop&) = default;
};

// Returns the trials that halving stops. At rung k (from 0), the best m = max(1, ceil(n /
// reduction^(k+1))) of the n trials go on. A trial is stopped as soon as m other trials have a
// better value at some rung. Later values cannot bring the trial back among the best m. Therefore,
// the result does not depend on the order in which values arrive. Values that are not finite are
// the worst. If two values are equal, the value of the earlier trial is better.
std::vector<Stop> losers(const Halving& halving, const std::vector<std::int64_t>& rungs,
                         const std::vector<RungValues>& trials);

std::string reason_text(const Halving& halving, const Stop& stop);

}  // namespace roll::spec
