// Implements `roll-rank plan`: reports what a train job would do, as JSON and as text. Runs
// nothing.
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/spec/train.hpp"

namespace roll::train {

// Returns the report as JSON (roll.plan/1): model, mesh, stages, pipeline table, memory, FLOPs,
// checkpoints. Throws RankFailure for a job that could not run.
OrderedJson plan_json(const spec::TrainSpec& spec, bool on_gpu = false);

std::string plan_text(const OrderedJson& plan);

// The pipeline schedule of a job, as files for other programs.
struct PlanDrawing {
    std::string svg;
    std::string trace;  // Chrome trace, JSON
};
PlanDrawing plan_drawing(const spec::TrainSpec& spec);

}  // namespace roll::train
