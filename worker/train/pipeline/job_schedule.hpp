// Derives the training step of a job from its spec: the layers of each pipeline stage, the
// schedule, what backward recomputes, and the options.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/pipeline/job_memory.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns the pipeline of the job. First chooses the schedule, with the costs without
// recomputation. Then, with recompute `auto`, chooses for each stage what its layers recompute: the
// choice with the fewest FLOPs whose memory fits parallel.memory_limit. Throws RankFailure(invalid)
// if the layers cannot be divided among the stages, if no schedule fits, or if a rank needs more
// memory than the limit.
JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                         bool on_gpu = false);

// Returns the schedule that the job requests, from parallel.schedule_file if that is set. Throws
// RankFailure(invalid) if the schedule is impossible.
plan::PipelineSchedule schedule_for(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                    const std::vector<plan::Costs>& costs);

// Returns the options of the job's training step, with weights on the CPU.
TrainOptions train_options(const spec::TrainSpec& spec, const spec::ModelConfig& config);

}  // namespace roll::train
