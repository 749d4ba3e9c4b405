#include "daemon/core/allocation/allocations.hpp"

#include <algorithm>

#include "daemon/core/facts/save_margin.hpp"

namespace roll::core {

int live_workers(const State& s, AllocationId id) {
    return static_cast<int>(std::ranges::count_if(
        s.workers, [&](const auto& item) { return item.second.allocation == id; }));
}

std::optional<Time> allocation_wakeup(const State& state, Time now) {
    std::optional<Time> wakeup;
    const auto earliest = [&](Time at) {
        if (at > now && (!wakeup || at < *wakeup)) wakeup = at;
    };
    for (const auto& [name, queue] : state.queues) earliest(queue.not_before);
    for (const auto& [id, a] : state.allocations) {
        if (a.phase != AllocationPhase::Granted || a.releasing) continue;
        const spec::PilotQueue& spec = state.queues.at(a.queue).spec;
        earliest(a.used_at + spec.idle);
        earliest(a.granted_at + kJoinGrace);
    }
    for (const auto& [id, at] : go_back_at(state)) {
        if (!state.allocations.at(id).releasing) earliest(at);
    }
    return wakeup;
}

std::map<AllocationId, Time> go_back_at(const State& state) {
    std::map<AllocationId, Time> all;
    for (const auto& [id, a] : state.allocations) {
        if (a.phase == AllocationPhase::Granted)
            all[id] = a.ends_at - state.queues.at(a.queue).spec.margin();
    }
    if (all.empty()) return all;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        if (job.save_ms.empty()) continue;
        for (const Place& place : job.attempt->places) {
            const auto worker = state.workers.find(place.worker);
            if (worker == state.workers.end()) continue;
            const auto found = all.find(worker->second.allocation);
            if (found == all.end()) continue;
            const Allocation& a = state.allocations.at(found->first);
            const Time::duration most = state.queues.at(a.queue).spec.time / 4;
            const Time by = a.ends_at - std::min<Time::duration>(save_margin(job.save_ms), most);
            found->second = std::min(found->second, by);
        }
    }
    return all;
}

}  // namespace roll::core
