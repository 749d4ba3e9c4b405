// Chooses the pipeline schedule of a job. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/spec/parallel.hpp"
#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {

// Returns the schedule that the job's `parallel` section asks for, with `microbatches` on each
// replica. Auto is the schedule that is fastest in a simulation with `costs` (as for check()). No
// rank may then hold more than `parallel.activation_limit` bytes of activations; 0: no limit.
// With one chunk per rank, Auto chooses between 1F1B and ZB-H1. With several, it chooses the
// group size of interleaving. Fails with InvalidArgument; the message has the numbers.
Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                     const std::vector<Costs>& costs = {});

// Returns the schedules that are possible for pp ranks with vp chunks each, the simplest first.
std::vector<PipelineSchedule> candidates(int pp, int vp, int microbatches);

// Returns the index of the schedule with the shortest step, or the first of several equally short
// ones. Considers only schedules in which no rank holds more than `limit` bytes (0: no limit).
// Returns nullopt if there is none.
std::optional<std::size_t> fastest(const std::vector<PipelineSchedule>& schedules,
                                   const std::vector<Costs>& costs, std::int64_t limit);

}  // namespace roll::plan
