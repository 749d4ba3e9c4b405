#include "worker/train/pipeline/job_schedule.hpp"

#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/pipeline/choose_recompute.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {

JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                         bool on_gpu) {
    const spec::ParallelSpec& p = spec.parallel;
    check_layout(spec, config);
    JobPipeline job;
    job.chunks = trained_chunks(config, stage_split(p), spec.model.freeze);
    const std::vector<plan::StagePart> parts = parts_of(job, p.tp);
    const bool is_auto = p.recompute == spec::Recompute::Auto;
    if (!is_auto) job.recompute = plan::recomputed_of(p, chunk_layers(job.chunks));
    job.costs = plan::stage_costs(config, spec, parts, job.recompute);
    job.schedule = need(plan::schedule_of(p, spec.microbatches(), job.costs));
    if (is_auto) {
        const std::vector<plan::Held> held = stage_held(spec, config, job, on_gpu);
        job.recompute = chosen_recompute(spec, config, job, held);
        job.costs = plan::stage_costs(config, spec, parts, job.recompute);
    } else if (p.memory_limit > 0) {
        check_limit(spec, stage_memory(spec, config, job, on_gpu));
    }
    return job;
}

TrainOptions train_options(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    TrainOptions options;
    options.init = {.seed = spec.seed,
                    .std = config.init_std,
                    .dtype = dtype_of(spec.precision),
                    .draw = spec.model.from.empty(),
                    .freeze = spec.model.freeze};
    options.optimizer = spec.optimizer;
    options.clip_grad = spec.optimizer.clip_grad;
    options.count_zeros = spec.metrics.grad_zeros;
    options.normalize = spec.normalize;
    options.split = stage_split(spec.parallel);
    options.sequence = spec.parallel.sequence;
    options.zero = spec.parallel.zero;
    if (spec.objective == spec::Objective::Preference) options.preference = spec.preference;
    options.loss = spec.loss;
    return options;
}

}  // namespace roll::train
