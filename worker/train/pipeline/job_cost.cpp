#include "worker/train/pipeline/job_cost.hpp"

#include <algorithm>
#include <cmath>

#include "worker/plan/layer_values.hpp"
#include "worker/plan/tensor_bytes.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Counts the bytes that a rank sends to the other replicas. `own`: size in bytes of the gradients
// of the elements that the rank updates. `weights_sent`: if replicas share weights, the number of
// weights that a rank sends to each other replica.
void count_replicas(const spec::TrainSpec& spec, std::int64_t own, std::int64_t weights_sent,
                    SentBytes& sent) {
    const spec::ParallelSpec& p = spec.parallel;
    const int replicas = p.replicas();
    if (p.zero == 0 || replicas == 1) {
        // In a ring all-reduce, a rank sends almost twice as many bytes as it sums.
        sent.gradients = std::llround((replicas - 1.0) / replicas * 2 * static_cast<double>(own));
        return;
    }
    // With ZeRO, a rank sends the gradients of other ranks' rows to these ranks. The rank also
    // sends the weights of its own rows to all other ranks.
    const std::int64_t main = plan::main_bytes(spec.precision);
    const std::int64_t element = plan::element_bytes(spec.precision);
    sent.gradients = (replicas - 1) * own * (p.zero > 1 ? spec.microbatches() : 1);
    sent.weights = (replicas - 1) * (p.zero > 2 ? weights_sent * element : own * element / main);
}

}  // namespace

plan::MemoryBytes JobCost::fullest() const {
    return *std::ranges::max_element(memory, {}, &plan::MemoryBytes::total);
}

JobCost job_cost(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu) {
    const spec::ParallelSpec& p = spec.parallel;
    JobCost job{job_pipeline(spec, model, on_gpu)};
    job.report = need(plan::check(job.pipeline.schedule, job.pipeline.costs));
    for (ChunkSpec& chunk : job.pipeline.chunks) chunk.tp = p.tp;
    std::int64_t weights_sent = 0;
    for (const plan::Held& held : stage_held(spec, model, job.pipeline, on_gpu)) {
        job.memory.push_back(plan::memory_bytes(model, spec, held));
        job.sent.tensor =
            std::max(job.sent.tensor, plan::tensor_bytes(model, spec, *held.part, held.recompute));
        job.sent.context = std::max(job.sent.context,
                                    plan::context_bytes(model, spec, *held.part, held.recompute));
        const plan::Owned owned = held.owned.value_or(plan::Owned{});
        weights_sent = std::max(weights_sent, spec.microbatches() * owned.gathers + owned.updates);
    }
    if (p.tp == 1) job.sent.tensor = 0;
    count_replicas(spec, job.fullest().updated, weights_sent, job.sent);
    // A stage exchanges activations and their gradients with its neighbours, but sends nothing to a
    // neighbour on the same rank. Each tensor-parallel rank sends all rows or, with sequence
    // parallelism, only its own rows.
    job.sent.message = plan::rank_tokens(spec) * model.hidden *
                       plan::element_bytes(spec.precision) * (p.sequence ? 1 : p.tp);
    return job;
}

}  // namespace roll::train
