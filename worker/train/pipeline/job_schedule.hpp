// Decides the pipeline of a train job: the stages, the schedule, and what backward computes again.
#pragma once

#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

// Returns the pipeline of the job. With recompute `auto`, chooses for each stage the layers and
// kinds with the fewest FLOPs whose memory fits parallel.memory_limit; the schedule is chosen
// before, with the costs of no recomputation. Throws RankFailure(invalid) if the layers do not
// divide, no schedule fits, or a rank needs more memory than the limit.
JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config, bool on_gpu);

}  // namespace roll::train
