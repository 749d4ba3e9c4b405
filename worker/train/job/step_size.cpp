#include "worker/train/job/step_size.hpp"

#include <algorithm>
#include <vector>

#include "worker/plan/cost.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

void set_batch_size(spec::TrainSpec& spec, std::int64_t samples) {
    spec.global_batch_size = spec::batch_size_at(spec.batch_sizes(), samples);
}

void fit_schedule(const spec::TrainSpec& spec, JobPipeline& pipeline, std::int64_t microbatches) {
    if (pipeline.schedule.microbatches == microbatches) return;
    pipeline.schedule = schedule_for(spec.parallel, microbatches, pipeline.costs);
}

std::int64_t tokens_within_limit(const spec::TrainSpec& spec, const JobPipeline& pipeline) {
    if (spec.microbatch_limit == 0) return 0;
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(pipeline.schedule.pp));
    for (int stage = 0; stage < pipeline.schedule.stages(); ++stage)
        bytes[static_cast<std::size_t>(pipeline.schedule.home(stage).rank)] +=
            pipeline.costs[static_cast<std::size_t>(stage)].after_forward;
    // `bytes` is for a micro-batch of plan::microbatch_tokens() tokens, and grows in proportion to
    // the number of tokens.
    const double share =
        static_cast<double>(spec.microbatch_limit) / static_cast<double>(std::ranges::max(bytes));
    const auto tokens = static_cast<double>(plan::microbatch_tokens(spec));
    return std::max<std::int64_t>(static_cast<std::int64_t>(share * tokens), 1);
}

}  // namespace roll::train
