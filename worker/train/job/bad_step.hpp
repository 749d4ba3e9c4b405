// Finds the source of a non-finite loss or gradient norm. find_not_finite() searches one replica of
// the model; find_bad_step() combines the results of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct NotFinite {
    // the bad value: "the weight NAME", "the loss, then the gradient of NAME", ...; empty if this
    // stage does not hold the value
    std::string what;
    std::vector<int> microbatches;  // indices of the bad micro-batches; empty if a weight is bad
};

// Finds this replica's micro-batches with a non-finite loss or gradient. Replays all micro-batches
// one by one, without reducing gradients, and overwrites the gradients. The step must not have
// changed the model. The result also names the first bad parameter of the first bad
// micro-batch, in the order of the computation. Returns nullopt if all values of this replica are
// finite. All stages of the replica must call this function. All stages get the same result.
std::optional<NotFinite> find_not_finite(TrainStep& step, std::span<const Microbatch> batch);

struct BadStep {
    // The lowest rank that holds a bad value (NotFinite::what). 0 if no rank holds one. In that
    // case, all values are finite, but a sum of values over micro-batches or ranks is not.
    int rank = 0;
    // sentence that names the step, the rank, the samples and the first bad parameter
    std::string sentence;
    std::vector<std::int64_t> samples;  // samples at fault, of all ranks, ascending
};

// Finds the samples at fault: the samples of the micro-batches whose own loss or gradient is not
// finite. If there is no such micro-batch, all samples of the step are at fault. Every rank must
// call this function with its own part of the batch. All ranks get the same result.
BadStep find_bad_step(TrainStep& step, std::span<const Microbatch> batch, const StepResult& result,
                      const StepPlace& place, Communicator& world);

// Returns ascending numbers as text, with runs as ranges: "50 to 51 and 64".
std::string ranges_text(std::span<const std::int64_t> ascending);

// Returns a number as text with `digits` significant digits, such as "0.25" or "1e+30".
std::string rounded_text(double value, int digits = 6);

}  // namespace roll::train
