// What the ranks together find out about a step whose loss or gradient norm was no number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/train/batches.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/not_finite.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct BadStep {
    int rank = 0;                       // the first where it began; 0 if it is no rank's alone
    std::string sentence;               // step, rank, samples, first parameter
    std::vector<std::int64_t> samples;  // at fault, of all ranks, ascending
};

// Called by every rank with its own part of the batch; all get the same. At fault are the samples
// of micro-batches whose loss or gradient is not finite alone, or all of the step's if none is.
BadStep find_bad_step(Chunk& model, std::span<const Microbatch> batch, const StepResult& result,
                      const StepPlace& place, Communicator& world);

// "50 to 51 and 64".
std::string ranges_text(std::span<const std::int64_t> ascending);

}  // namespace roll::train
