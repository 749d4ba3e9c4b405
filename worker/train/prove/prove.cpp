#include "worker/train/prove/prove.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/prove/batches.hpp"

namespace roll::train {
namespace {

constexpr int kSteps = 3;
// Standard deviation of the weights. It is large, so that norms, caps and activation functions work
// in their nonlinear range.
constexpr double kStd = 0.2;
constexpr double kLearningRate = 1e-3;

// Returns the job in its layout, with clipping at `clip`.
LocalJob in_layout(const SmallJob& small, double clip) {
    const spec::ParallelSpec& p = small.spec.parallel;
    const JobPipeline pipeline = job_pipeline(small.spec, small.config, /*on_gpu=*/false);
    LocalJob job{.config = small.config,
                 .schedule = pipeline.schedule,
                 .dp = p.dp,
                 .tp = p.tp,
                 .options = train_options(small.spec, small.config),
                 .steps = kSteps,
                 .lr = kLearningRate,
                 .batch = [&small](int step) {
                     return proof_batches(small.spec, small.config.vocab, step);
                 }};
    job.options.init.std = kStd;
    job.options.init.dtype = at::kDouble;
    job.options.init.draw = true;
    job.options.clip_grad = clip;
    job.options.count_zeros = true;
    job.options.recompute = pipeline.recompute;
    return job;
}

// Returns the same job on one rank, which executes the micro-batches of all replicas.
LocalJob on_one_rank(LocalJob job) {
    job.schedule = plan::gpipe(1, 1, job.dp * job.schedule.microbatches);
    job.dp = job.tp = 1;
    job.options.split = {};
    job.options.sequence = false;
    job.options.zero = 0;
    job.options.recompute = {};
    return job;
}

// Trains the job on one rank. Lowers the clipping limit until the gradient norm exceeds it in every
// step. Sets `clip` to this limit.
Record reference_of(const SmallJob& small, double& clip) {
    constexpr int kTries = 6;
    for (int i = 0; i < kTries; ++i) {
        Record record = train_locally(on_one_rank(in_layout(small, clip)));
        double least = INFINITY;
        for (int step = 0; step < kSteps; ++step)
            least = std::min(least,
                             record.values.at(std::to_string(step) + ".grad_norm").item<double>());
        if (least > clip) return record;
        if (!(least > 0)) break;
        clip = least / 4;
    }
    throw RankFailure(
        1, "on one rank, the gradient of the job with the smallest sizes is 0 or not finite");
}

std::vector<std::string> parameter_names(const spec::ModelConfig& config) {
    std::vector<std::string> names;
    for (const ParameterSpec& parameter : parameter_specs(config, whole_chunk(config)))
        names.push_back(parameter.name);
    return names;
}

void compare(Proof& proof, const Record& seen, const Named& reference) {
    const auto is_tensor = [&](const std::string& name) { return reference.at(name).dim() > 0; };
    for (const auto& [name, expected] : reference) {
        ++(is_tensor(name) ? proof.tensors : proof.numbers);
        const auto found = seen.values.find(name);
        if (found == seen.values.end()) continue;
        const double error = error_of(found->second, expected);
        if (proof.worst.name.empty() || error > proof.worst.error) proof.worst = {name, error};
    }
    const std::vector<Difference> all =
        differences(seen, reference, kProofLimit, parameter_names(proof.job.config));
    proof.differing = all.size();
    if (all.empty()) return;
    proof.first = all.front();
    const auto tensor = std::ranges::find_if(
        all, [&](const Difference& difference) { return is_tensor(difference.name); });
    if (tensor != all.end()) proof.first_tensor = *tensor;
}

}  // namespace

Proof prove(const spec::TrainSpec& spec, const spec::ModelConfig& config,
            const std::vector<Plant>& plants) {
    const auto start = std::chrono::steady_clock::now();
    Proof proof{.job =
                    cut_job(spec, config, job_pipeline(spec, config, /*on_gpu=*/false).schedule)};
    const SmallJob& small = proof.job;
    check_spec(small.spec, false);
    for (const ChunkSpec& chunk : stage_chunks(small.config, stage_split(small.spec.parallel)))
        proof.layers.push_back(chunk.layer_end - chunk.layer_begin);
    proof.steps = kSteps;
    proof.clip_grad = spec.optimizer.clip_grad > 0 ? spec.optimizer.clip_grad : 1;
    const Record reference = reference_of(small, proof.clip_grad);
    LocalJob job = in_layout(small, proof.clip_grad);
    job.fabric.plants = plants;
    try {
        compare(proof, train_locally(job), reference.values);
    } catch (const std::logic_error& e) {  // GroupFault or Deadlock: the ranks' calls do not match
        proof.fault = e.what();
    } catch (const PeerLost& e) {
        proof.fault = e.what();
    }
    proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return proof;
}

}  // namespace roll::train
