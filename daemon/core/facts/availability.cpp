#include "daemon/core/facts/availability.hpp"

#include "daemon/core/facts/machines.hpp"

namespace roll::core {

bool takes_work(const State& state, const Worker& worker, bool excluded) {
    if (worker.draining) return false;
    if (!excluded && is_excluded(state, worker)) return false;
    const auto a = state.allocations.find(worker.allocation);
    return a == state.allocations.end() || !(a->second.releasing || a->second.closed);
}

std::optional<Time> leaves_at(const State& state, const Worker& worker) {
    const auto a = state.allocations.find(worker.allocation);
    if (a == state.allocations.end()) return std::nullopt;
    return a->second.ends_at - state.queues.at(a->second.queue).spec.margin();
}

bool has_time_for(const std::optional<Time>& leaves, const spec::Resources& wanted, Time now) {
    return !leaves || now + wanted.time <= *leaves;
}

bool is_large_enough(const Worker& worker, const spec::Resources& wanted) {
    return worker.slots >= wanted.slots_per_node && worker.gpus >= wanted.gpus_per_node &&
           worker.memory >= wanted.memory && worker.cpus >= wanted.cpus;
}

bool offers(const spec::PilotQueue& queue, const spec::Resources& wanted) {
    return queue.slots >= wanted.slots_per_node && queue.gpus >= wanted.gpus_per_node &&
           queue.memory >= wanted.memory && cpus_of(queue) >= wanted.cpus &&
           wanted.time <= queue.time - queue.margin();
}

}  // namespace roll::core
