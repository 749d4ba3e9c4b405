// The pipeline of a train job: the parts of the model on its stages, and the schedule.
#pragma once

#include <vector>

#include "common/spec/train.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

struct JobPipeline {
    std::vector<ChunkSpec> chunks;  // one chunk per stage, in the order of forward
    std::vector<plan::Costs> costs;
    plan::PipelineSchedule schedule;
};

// Returns the pipeline of the job. Throws RankFailure(invalid) if the layers do not divide or no
// schedule fits.
JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
