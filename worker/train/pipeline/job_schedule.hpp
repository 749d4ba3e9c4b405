// Decides what a train job's spec says about its step: the parts of the model on the pipeline's
// stages, the schedule, what backward computes again, and the options.
#pragma once

#include "worker/train/pipeline/job_memory.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns the pipeline of the job. With recompute `auto`, chooses for each stage the layers and
// kinds with the fewest FLOPs whose memory fits parallel.memory_limit; the schedule is chosen
// before, with the costs of no recomputation. Throws RankFailure(invalid) if the layers do not
// divide, no schedule fits, or a rank needs more memory than the limit.
JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                         bool on_gpu = false);

// Returns the options of the job's step, with weights on the CPU.
TrainOptions train_options(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
