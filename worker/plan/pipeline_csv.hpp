// Reads a pipeline schedule that a user wrote. Pure.
//
// The format is that of torch.distributed.pipelining's PipelineScheduleMulti (compute_only): one
// line per rank, one cell per operation, in order. A cell is STAGE KIND MICROBATCH, such as 0F3.
// Kinds: F forward, I gradient of the input, W gradient of the weights, B both. Empty cells are
// idle time and have no effect.
#pragma once

#include <string_view>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {

// Reads the schedule of pp ranks with vp chunks each, and checks it with check(). The stages of a
// rank decide the placement: Loop (rank r has the stages r, r + pp, ...) or V. Fails with
// InvalidArgument; the message names the rank and the cell or the operation.
Result<PipelineSchedule> schedule_from_csv(std::string_view text, int pp, int vp, int microbatches);

}  // namespace roll::plan
