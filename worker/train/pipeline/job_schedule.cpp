#include "worker/train/pipeline/job_schedule.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "worker/plan/pipeline_choice.hpp"
#include "worker/plan/pipeline_csv.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/pipeline/choose_recompute.hpp"
#include "worker/train/pipeline/stage_choice.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {

namespace {

// Throws RankFailure(invalid) if a rank would hold more activations than parallel.activation_limit.
// `name`: what set the schedule.
void check_activations(const spec::ParallelSpec& parallel, const plan::PipelineSchedule& schedule,
                       const std::vector<plan::Costs>& costs, const std::string& name) {
    if (parallel.activation_limit == 0) return;
    const plan::ScheduleReport report = need(plan::check(schedule, costs));
    const auto most = std::ranges::max_element(report.peak_bytes);
    if (*most > parallel.activation_limit)
        throw RankFailure(2, name + "rank " + std::to_string(most - report.peak_bytes.begin()) +
                                 " would hold " + std::to_string(*most) +
                                 " bytes of activations; parallel.activation_limit is " +
                                 std::to_string(parallel.activation_limit) +
                                 " bytes; raise the limit, set a smaller train.micro_batch_size, "
                                 "or choose another schedule");
}

}  // namespace

plan::PipelineSchedule schedule_for(const spec::ParallelSpec& parallel, std::int64_t microbatches,
                                    const std::vector<plan::Costs>& costs) {
    if (parallel.schedule_file.empty()) {
        plan::PipelineSchedule schedule = need(plan::schedule_of(parallel, microbatches, costs));
        check_activations(parallel, schedule, costs,
                          std::string("parallel.schedule: ") + name_of(parallel.schedule) + ": ");
        return schedule;
    }
    const std::string name = "parallel.schedule_file: " + parallel.schedule_file + ": ";
    auto schedule =
        plan::schedule_from_csv(need(read_regular_file(parallel.schedule_file)), parallel.pp,
                                parallel.vpp, static_cast<int>(microbatches));
    if (!schedule) throw RankFailure(2, name + schedule.error().message);
    need(plan::check(*schedule, costs));
    check_activations(parallel, *schedule, costs, name);
    return *std::move(schedule);
}

JobPipeline job_pipeline(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                         bool on_gpu) {
    check_layout(spec, config, on_gpu);
    const spec::ParallelSpec p = with_stages(spec, config);
    JobPipeline job;
    job.chunks = trained_chunks(config, stage_split(p), spec.model.freeze);
    const std::vector<plan::StagePart> parts = parts_of(job, p.tp);
    const bool is_auto = p.recompute == spec::Recompute::Auto;
    if (!is_auto) job.recompute = plan::recomputed_of(p, chunk_layers(job.chunks));
    job.costs = plan::stage_costs(config, spec, parts, job.recompute);
    job.schedule = schedule_for(p, spec.microbatches(), job.costs);
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
    const std::int64_t main = plan::main_bytes(spec.precision);
    options.init = {.seed = spec.seed,
                    .std = config.init_std,
                    .dtype = dtype_of(spec.precision),
                    .draw = spec.model.from.empty(),
                    .freeze = spec.model.freeze,
                    .offloaded_count = [optimizer = spec.optimizer, main](const auto& specs) {
                        return offloaded_count(optimizer, specs, main);
                    }};
    options.optimizer = spec.optimizer;
    options.clip_grad = spec.optimizer.clip_grad;
    options.count_zeros = spec.metrics.grad_zeros;
    options.normalize = spec.normalize;
    options.split = stage_split(with_stages(spec, config));
    options.sequence = spec.parallel.sequence;
    options.zero = spec.parallel.zero;
    if (spec.objective == spec::Objective::Preference) options.preference = spec.preference;
    options.loss = spec.loss;
    return options;
}

}  // namespace roll::train
