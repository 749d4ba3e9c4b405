// The layout in which a training job runs, and the layouts that a search found, for people.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::cli {

// Returns the keys dp, tp, pp, vpp, sequence, zero, recompute, schedule, group (0 if it is not set)
// and micro_batch_size. The values are from the job file. In place of `auto`, the result has the
// values that `submit` chose. If the trainer chooses the schedule, the schedule is `auto` until the
// trainer has reported it. `file` stands for parallel.schedule_file. dp follows from the number of
// ranks. Returns null for a job that does not train. `job` is a reply to `show`.
Json layout_of(const Json& job);

// Adds to the layout the schedule that the trainer chose, if the layout has `auto`. `head`: the
// first row of the job's metrics.jsonl, which names the schedule, also after the job ended.
void add_chosen_schedule(Json& layout, const Json& head);

// Returns the report of a search for a layout (roll.layout/1) as lines of text.
std::vector<std::string> layout_lines(const Json& report);

// Returns a layout as text, such as "dp 2, tp 2, pp 2, zero 1, 1f1b, micro_batch_size 4". Leaves
// out axes of size 1, and the schedule if there is one stage.
std::string layout_text(const Json& layout);

}  // namespace roll::cli
