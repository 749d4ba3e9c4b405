#include "daemon/core/placement/avoided.hpp"

#include <algorithm>

#include "daemon/core/placement/find_places.hpp"

namespace roll::core {

std::set<WorkerId> avoided_workers(const State& state, const Job& job) {
    std::set<WorkerId> avoided;
    if (job.avoid.empty()) return avoided;
    for (const auto& [id, worker] : state.workers) {
        if (job.avoid.contains(worker.node)) avoided.insert(id);
    }
    return avoided;
}

std::set<WorkerId> forbidden_workers(const State& state, const Job& job, const Capacity& all,
                                     const std::vector<int>& shapes) {
    std::set<WorkerId> avoided = avoided_workers(state, job);
    if (avoided.empty()) return avoided;
    const Capacity others = without(all, avoided);
    const auto holds = [&](int shape) {
        return !find_places(job.spec.shape(shape), others).empty();
    };
    return std::ranges::any_of(shapes, holds) ? avoided : std::set<WorkerId>{};
}

Capacity without(Capacity capacity, const std::set<WorkerId>& workers) {
    for (const WorkerId id : workers) capacity.erase(id);
    return capacity;
}

}  // namespace roll::core
