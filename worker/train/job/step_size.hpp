// Adjusts a job to steps whose batches differ in size.
#pragma once

#include <cstdint>

#include "common/spec/train/train.hpp"
#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

// Sets the batch size of the step that begins after `samples` samples.
void set_batch_size(spec::TrainSpec& spec, std::int64_t samples);

// Replaces the pipeline's schedule by a schedule for this number of micro-batches, if the number
// has changed. The stages and their ranks stay the same. Throws RankFailure(invalid) if the job's
// schedule does not exist for this number.
void fit_schedule(const spec::TrainSpec& spec, JobPipeline& pipeline, std::int64_t microbatches);

// Returns the number of tokens at which the activations of a micro-batch reach
// train.microbatch_limit on the rank with the largest activations; 0 if there is no limit.
std::int64_t tokens_within_limit(const spec::TrainSpec& spec, const JobPipeline& pipeline);

}  // namespace roll::train
