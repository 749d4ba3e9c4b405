#include "worker/train/search/score.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "worker/plan/cost.hpp"
#include "worker/plan/layer_values.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/plan/tensor_bytes.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/pipeline/choose_recompute.hpp"
#include "worker/train/pipeline/job_cost.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Approximate memory in bytes that every rank needs for the program and one block of logits
constexpr double kProgram = 160 << 20;
// Number of elements in a gradient bucket of a large model (plan::default_bucket_numel())
constexpr double kBucketMost = 1 << 23;

double work(const plan::Costs& cost) {
    return cost.forward + cost.backward_input + cost.backward_weight;
}

// Returns the FLOPs that a rank computes in one unit of time of plan::stage_costs(). Counts small
// products as more FLOPs, because they are slower. `costs`: the costs without recomputation.
double flops_of_unit(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     std::span<const plan::Costs> costs) {
    double units = 0;
    for (const plan::Costs& cost : costs) units += work(cost);
    const double rows = static_cast<double>(plan::rank_tokens(spec)) + kRowsMore;
    const double flops = plan::flops_per_token(model, spec.seq_length).causal * rows;
    return flops / spec.parallel.tp / units;
}

// Estimates the time for which a rank is idle while the pipeline fills and drains, as a share of
// the time that the other pp - 1 stages need for one micro-batch.
double idle_share(const spec::ParallelSpec& p) {
    switch (p.schedule) {
        // The gradients of the weights fill two thirds of the bubble.
        case spec::Schedule::ZeroBubbleH1: return 1.0 / 3;
        // A rank is idle only until its first micro-batch arrives. Each earlier stage first runs
        // one forward of one chunk. This forward is one of the six passes of the stage's two
        // chunks.
        case spec::Schedule::ZeroBubbleV:
        case spec::Schedule::DualPipeV: return 1.0 / 6;
        default: return 1.0 / p.vpp;
    }
}

// Returns the bytes that a rank sends to neighbouring stages in a step: activations and gradients
// of each chunk.
std::int64_t stage_bytes(const spec::TrainSpec& spec, const spec::ModelConfig& model) {
    const spec::ParallelSpec& p = spec.parallel;
    if (p.pp == 1) return 0;
    const std::int64_t rows = plan::rank_tokens(spec) / (p.sequence ? p.tp : 1);
    return 2 * p.vpp * spec.microbatches() * rows * model.hidden *
           plan::element_bytes(spec.precision);
}

// Estimates the bytes that a rank with `count` parameters sends to the other replicas in a step.
double replica_bytes(const spec::TrainSpec& spec, double count) {
    const spec::ParallelSpec& p = spec.parallel;
    const double others = (p.replicas() - 1.0) / p.replicas(),
                 m = static_cast<double>(spec.microbatches());
    const auto main = static_cast<double>(plan::main_bytes(spec.precision));
    const auto element = static_cast<double>(plan::element_bytes(spec.precision));
    switch (p.zero) {
        case 0: return others * count * 2 * main;
        case 1: return others * count * (main + element);
        case 2: return others * count * (m * main + element);
        default: return others * count * m * (main + 2 * element);
    }
}

// Estimates the bytes of the buffers in which replicas exchange the gradients of two buckets.
double exchange_bytes(const spec::TrainSpec& spec, const JobBytes& bytes, double count) {
    const spec::ParallelSpec& p = spec.parallel;
    const double replicas = p.replicas();
    if (p.zero == 0 || replicas == 1) return 0;
    const double bucket = std::min(kBucketMost, count / 4);
    const double exchanged = 2 * bytes.trained * (replicas + 1) / replicas,
                 staged = p.zero > 1 ? 1 : 0;
    return bucket * (exchanged + staged) * static_cast<double>(plan::main_bytes(spec.precision));
}

// Estimates the memory in bytes of a rank with `count` parameters and `held` bytes of activations.
double rank_memory(const spec::TrainSpec& spec, const JobBytes& bytes, double count, double held) {
    const spec::ParallelSpec& p = spec.parallel;
    const double replicas = p.replicas();
    const bool gathers = p.zero > 2 && replicas > 1;
    // A gathered unit is in memory twice: as received, and in the whole weights.
    const double gathered = gathers ? bytes.unit / p.tp * (2 * replicas + 1) / replicas : 0;
    const double weights =
        bytes.unsplit + (bytes.weights - bytes.unsplit) / (gathers ? replicas : 1);
    const double gradients = bytes.gradients / (p.zero > 1 ? replicas : 1);
    const double states = (bytes.main + bytes.states) / (p.zero > 0 ? replicas : 1);
    return kProgram + count * (weights + gradients + states) + gathered +
           exchange_bytes(spec, bytes, count) + held;
}

}  // namespace

JobBytes job_bytes(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu) {
    std::vector<ParameterSpec> specs = parameter_specs(model, whole_chunk(model));
    mark_frozen(specs, spec.model.freeze);
    const std::int64_t element = plan::element_bytes(spec.precision);
    std::int64_t weights = 0, unsplit = 0;
    for (const ParameterSpec& one : specs) {
        const std::int64_t size = one.form.is_packed()
                                      ? one.sizes[0] * one.form.row_bytes()
                                      : element * c10::multiply_integers(one.sizes);
        weights += size;
        if (!is_splittable(one)) unsplit += size;
    }
    const double kept = 1 - spec.optimizer.offload;
    const auto all = static_cast<double>(numel(specs));
    const auto trained = static_cast<double>(trainable_numel(specs));
    const auto of_each = [&](double bytes) { return bytes / all; };
    return {.weights = of_each(static_cast<double>(weights)),
            .unsplit = of_each(static_cast<double>(unsplit)),
            .main = of_each((on_gpu ? kept : 1) * (model.lora.is_set() ? trained : all) *
                            static_cast<double>(plan::copy_bytes(spec.precision, on_gpu))),
            .gradients = of_each((on_gpu ? all : trained) *
                                 static_cast<double>(plan::main_bytes(spec.precision))),
            .states = of_each(kept * static_cast<double>(state_bytes(spec, specs))),
            .trained = trained / all,
            .unit = static_cast<double>(element * largest_unit(specs, element))};
}

LayoutScore estimate(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const JobBytes& bytes) {
    const spec::ParallelSpec& p = spec.parallel;
    JobPipeline job;
    job.chunks = trained_chunks(model, stage_split(p), spec.model.freeze);
    const std::vector<plan::StagePart> parts = parts_of(job, p.tp);
    const std::vector<plan::Costs> plain = plan::stage_costs(model, spec, parts);
    const double unit = flops_of_unit(spec, model, plain);
    std::vector<plan::Costs> costs = plain;
    plan::Recomputed again;
    if (p.recompute != spec::Recompute::None && p.recompute != spec::Recompute::Auto) {
        again = plan::recomputed_of(p, chunk_layers(job.chunks));
        costs = plan::stage_costs(model, spec, parts, again);
    }
    if (!again.empty()) again.resize(static_cast<std::size_t>(parts.front().layers));
    std::vector<double> busy(static_cast<std::size_t>(p.pp)), count = busy, saved = busy;
    double all = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t stage = i % static_cast<std::size_t>(p.pp);
        busy[stage] += work(costs[i]);
        all += work(costs[i]);
        count[stage] += static_cast<double>(plan::part_parameters(model, parts[i]));
        if (!spec.offloads_activations) saved[stage] += static_cast<double>(costs[i].after_forward);
    }
    const auto m = static_cast<double>(spec.microbatches());
    const double slowest = std::ranges::max(busy), fill = all / p.pp * (p.pp - 1) * idle_share(p);
    const double most = std::ranges::max(count);
    LayoutScore score;
    score.microbatches = spec.microbatches();
    score.sent = static_cast<std::int64_t>(replica_bytes(spec, most)) + stage_bytes(spec, model) +
                 (plan::tensor_bytes(model, spec, parts.front(), again) +
                  plan::context_bytes(model, spec, parts.front(), again)) *
                     p.vpp;
    score.time = (m * slowest + fill) * unit + kFlopsPerByte * static_cast<double>(score.sent);
    for (std::size_t stage = 0; stage < busy.size(); ++stage) {
        const double live = std::min(m, static_cast<double>(p.pp));
        score.memory = std::max(score.memory, static_cast<std::int64_t>(rank_memory(
                                                  spec, bytes, count[stage], live * saved[stage])));
    }
    return score;
}

LayoutScore measure(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu) {
    const JobCost job = job_cost(spec, model, on_gpu);
    const std::vector<plan::Costs> plain =
        plan::stage_costs(model, spec, parts_of(job.pipeline, spec.parallel.tp));
    LayoutScore score;
    score.bubble = job.report.bubble;
    score.memory = job.fullest().total();
    score.sent = job.sent.gradients + job.sent.weights + job.sent.tensor + job.sent.context +
                 stage_bytes(spec, model);
    score.time = job.report.makespan * flops_of_unit(spec, model, plain) +
                 kFlopsPerByte * static_cast<double>(score.sent);
    score.microbatches = spec.microbatches();
    score.schedule = job.pipeline.schedule.name;
    return score;
}

std::int64_t work_of(const spec::TrainSpec& spec) {
    const spec::ParallelSpec& p = spec.parallel;
    const std::int64_t schedules = p.schedule != spec::Schedule::Auto ? 1 : p.vpp == 1 ? 2 : 6;
    return (schedules + 3) * 3 * p.pp * p.vpp * spec.microbatches();
}

}  // namespace roll::train
