// Chooses the pipeline schedule of a job. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/spec/parallel.hpp"
#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {

// Returns the schedule that a job asks for, with `microbatches` on each replica. Auto is the
// fastest schedule in a simulation with `costs` (as for check()) in which no rank holds more than
// `parallel.activation_limit` bytes of activations; 0: no limit. With one chunk per rank, Auto
// chooses between 1F1B and ZB-H1. With several, it chooses the group size of interleaving. Fails
// with InvalidArgument; the message has the numbers.
Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                     const std::vector<Costs>& costs = {});

// Returns the schedules that suit pp ranks of vp chunks, the simplest first.
std::vector<PipelineSchedule> candidates(int pp, int vp, int microbatches);

// Returns the index of the schedule with the shortest step among the schedules whose ranks hold at
// most `limit` bytes (0: no limit); the first if several are equally short. nullopt if none fits.
std::optional<std::size_t> fastest(const std::vector<PipelineSchedule>& schedules,
                                   const std::vector<Costs>& costs, std::int64_t limit);

}  // namespace roll::plan
