// Checks that a job's pipeline stages fit its model and batches. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/spec/schema/problem.hpp"
#include "common/spec/train/parallel.hpp"

namespace roll::spec {

// The sizes that pipeline_problems() checks. A size that is nullopt is unknown and not checked.
struct PipelineSizes {
    // number of micro-batches of one replica in a step
    std::optional<std::int64_t> microbatches = std::nullopt;
    std::optional<std::int64_t> layers = std::nullopt;
    // number of sequences that all replicas together process per micro-batch: micro_batch_size x dp
    std::optional<std::int64_t> rows = std::nullopt;
};

// Returns a problem if the layers cannot be divided into the pipeline's stages and chunks, else
// nullopt. The message lists the nearest settings that work.
std::optional<Problem> undivided_layers(const ParallelSpec& parallel, std::int64_t layers);

// Returns a problem for each rule that the pipeline breaks. The message has the sizes and the
// allowed values.
std::vector<Problem> pipeline_problems(const ParallelSpec& parallel, const PipelineSizes& sizes);

}  // namespace roll::spec
