// Implements `roll-rank plan`: reports what a train job would do, as JSON and as text, without
// running it.
#pragma once

#include <chrono>
#include <string>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Returns the report as JSON (roll.plan/1). The report has the model, the mesh, the stages, the
// table of the pipeline, the memory, the FLOPs and the checkpoints, and warnings if there are any.
// `nodes`: number of nodes among which the ranks are divided. Throws RankFailure if the job could
// not run.
OrderedJson plan_json(const spec::TrainSpec& spec, bool on_gpu = false, int nodes = 1);

// Adds the time limit of an attempt to the report, and a warning if the estimated time is longer.
void add_time_limit(OrderedJson& plan, std::chrono::seconds limit);

std::string plan_text(const OrderedJson& plan);

// A job's pipeline schedule as files for viewers.
struct PlanDrawing {
    std::string svg;
    std::string trace;  // Chrome trace (JSON)
};
PlanDrawing plan_drawing(const spec::TrainSpec& spec, bool on_gpu);

}  // namespace roll::train
