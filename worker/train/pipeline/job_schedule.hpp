// What a train job's spec says about its step: the parts of the model on the pipeline's stages, the
// schedule, and the options.
#pragma once

#include <vector>

#include "common/spec/train.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct JobPipeline {
    std::vector<ChunkSpec> chunks;  // one chunk per stage, in the order of forward
    std::vector<plan::Costs> costs;
    plan::PipelineSchedule schedule;
};

// Returns the pipeline of the job. Throws RankFailure(invalid) if the layers do not divide or no
// schedule fits.
JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config);

// Returns the options of the job's step, with weights on the CPU.
TrainOptions train_options(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
