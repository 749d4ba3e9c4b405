// Finds, over all ranks, the cause of a step whose loss or gradient norm is not finite.
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
    int rank = 0;                       // the first rank at fault; 0 if no single rank is
    std::string sentence;               // names step, rank, samples, first parameter
    std::vector<std::int64_t> samples;  // at fault, of all ranks, ascending
};

// Every rank calls this with its own part of the batch; all get the same result. The samples at
// fault are those of the micro-batches with a non-finite loss or gradient of their own; if there
// are none, all samples of the step.
BadStep find_bad_step(Chunk& model, std::span<const Microbatch> batch, const StepResult& result,
                      const StepPlace& place, Communicator& world);

// Formats ascending numbers as ranges: "50 to 51 and 64".
std::string ranges_text(std::span<const std::int64_t> ascending);

}  // namespace roll::train
