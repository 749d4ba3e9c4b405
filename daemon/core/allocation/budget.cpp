#include "daemon/core/allocation/budget.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace roll::core {
namespace {

// Returns how many more allocations the queue's GPU-hours allow. Subtracts the GPU-hours of ended
// allocations, and the GPU-hours of the `alive` allocations for their full time.
int affordable(const AllocationQueue& queue, int alive) {
    const spec::PilotQueue& spec = queue.spec;
    const std::int64_t each = spec.time.count() * spec.nodes * spec.gpus;
    if (spec.max_gpu_hours == 0 || each == 0) return 1'000'000;
    const std::int64_t most = std::int64_t{3600} * spec.max_gpu_hours - queue.gpu_seconds;
    return static_cast<int>(std::clamp<std::int64_t>(most / each - alive, 0, 1'000'000));
}

}  // namespace

int most_alive(const AllocationQueue& queue, int alive) {
    const spec::PilotQueue& spec = queue.spec;
    ROLL_CHECK(spec.nodes > 0);
    int most = alive + affordable(queue, alive);
    if (spec.max_jobs > 0) most = std::min(most, spec.max_jobs);
    if (spec.max_nodes > 0) most = std::min(most, spec.max_nodes / spec.nodes);
    return most;
}

Budget budget_of(const State& state, const std::string& name, const AllocationQueue& queue,
                 Time now) {
    ROLL_CHECK(!queue.paused && !queue.removing);
    Budget budget{.spec = &queue.spec};
    int on_probe = 0;
    for (const auto& [id, a] : state.allocations) {
        if (a.queue != name) continue;
        ++budget.alive;
        budget.waiting += a.phase != AllocationPhase::Granted;
        on_probe += a.joined == 0;
    }
    budget.most = most_alive(queue, budget.alive);
    budget.orders = std::max(budget.most - budget.alive, 0);
    if (!queue.proven) budget.orders = std::min(budget.orders, 1);
    budget.later = queue.not_before > now || (!queue.proven && on_probe > 0);
    return budget;
}

}  // namespace roll::core
