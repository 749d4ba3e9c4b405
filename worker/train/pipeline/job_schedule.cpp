#include "worker/train/pipeline/job_schedule.hpp"

#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {

JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    const spec::ParallelSpec& p = spec.parallel;
    check_layout(spec, config);
    JobPipeline job;
    job.chunks = stage_chunks(config, stage_split(p));
    std::vector<plan::StagePart> parts;
    for (const ChunkSpec& chunk : job.chunks)
        parts.push_back({.layers = chunk.layer_end - chunk.layer_begin,
                         .first = chunk.pre,
                         .last = chunk.post,
                         .tp = p.tp,
                         .first_layer = chunk.layer_begin});
    job.costs = plan::stage_costs(config, spec, parts);
    job.schedule = need(plan::schedule_of(p, spec.microbatches(), job.costs));
    return job;
}

TrainOptions train_options(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    TrainOptions options;
    options.init = {.seed = spec.seed,
                    .std = config.init_std,
                    .dtype = dtype_of(spec.precision),
                    .draw = spec.model.from.empty(),
                    .freeze = spec.model.freeze};
    options.adamw = {spec.optimizer.beta1, spec.optimizer.beta2, spec.optimizer.eps,
                     spec.optimizer.weight_decay, spec.optimizer.decays};
    options.clip_grad = spec.optimizer.clip_grad;
    options.count_zeros = spec.metrics.grad_zeros;
    options.normalize = spec.normalize;
    options.split = stage_split(spec.parallel);
    options.sequence = spec.parallel.sequence;
    options.zero = spec.parallel.zero;
    if (spec.objective == spec::Objective::Preference) options.preference = spec.preference;
    return options;
}

}  // namespace roll::train
