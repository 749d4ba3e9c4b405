// Chooses the pipeline schedule of a job. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/spec/train/parallel.hpp"
#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {

// Returns the schedule that the job's `parallel` section requests, for `microbatches` micro-batches
// per replica. For `auto`, simulates the candidates with `costs` (as check() does) and returns the
// fastest candidate. Excludes candidates in which a rank holds more than
// `parallel.activation_limit` bytes of activations (0: no limit). With one chunk per rank, the
// candidates are 1F1B and ZB-H1. With several chunks per rank, the candidates are interleaved
// schedules with different group sizes; with two chunks, also ZB-V and DualPipeV. Fails with
// InvalidArgument if no schedule is within the limit; the message gives the needed bytes and the
// limit.
Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                     const std::vector<Costs>& costs = {});

// Returns the schedules that are possible for pp ranks with vp chunks each, from the simplest on.
std::vector<PipelineSchedule> candidates(int pp, int vp, int microbatches);

// Returns the index of the schedule with the shortest step; if several are equally short, the first
// of them. Considers only schedules in which no rank holds more than `limit` bytes (0: no limit).
// Returns nullopt if there is no such schedule.
std::optional<std::size_t> fastest(const std::vector<PipelineSchedule>& schedules,
                                   const std::vector<Costs>& costs, std::int64_t limit);

}  // namespace roll::plan
