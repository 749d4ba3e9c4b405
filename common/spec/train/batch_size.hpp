// Batch sizes that depend on the tokens trained so far. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// A phase of a schedule: the batch size after `tokens` trained tokens.
struct BatchPhase {
    std::int64_t tokens = 0;
    std::int64_t size = 0;  // samples in a step
    friend bool operator==(const BatchPhase&, const BatchPhase&) = default;
};

// Parses a schedule such as "0:768 250B:1536" (Megatron's --step-batch-size-schedule): pairs
// TOKENS:SIZE. K, M, B and T stand for 10^3, 10^6, 10^9 and 10^12. The first number of tokens must
// be 0, the numbers must ascend, and all sizes must be at least 1. Otherwise, fails with
// InvalidArgument. An empty text has no phases.
Result<std::vector<BatchPhase>> parse_batch_schedule(std::string_view text);

// The batch sizes of a run.
struct BatchSizes {
    std::span<const BatchPhase> phases;  // empty: all steps have `size` samples
    std::int64_t size = 0;
    std::int64_t seq_length = 1;  // tokens per sample
};

// Returns the batch size of the step that begins after `samples` samples. A sample counts as
// seq_length tokens, so the size depends only on the number of samples, which checkpoints store. A
// step that begins exactly at a threshold has the new size.
std::int64_t batch_size_at(const BatchSizes& sizes, std::int64_t samples);

// Returns the number of samples before step `step` (from 0) of a run.
std::int64_t samples_before(const BatchSizes& sizes, std::int64_t step);

// Returns the number of steps that raise the number of trained samples from `done` to at least
// `wanted`.
std::int64_t steps_for(const BatchSizes& sizes, std::int64_t done, std::int64_t wanted);

}  // namespace roll::spec
