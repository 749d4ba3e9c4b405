// Why a job that waits for room is not on this node or that.
#include <fmt/format.h>

#include "daemon/core/allocations.hpp"
#include "daemon/core/room.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

constexpr std::size_t kNodesMax = 64;

// What holds for any job.
std::string closed(const core::State& state, const core::Worker& worker) {
    if (worker.draining) return "drains";
    if (core::is_excluded(state, worker))
        return "is left out: " + state.machines.at(core::machine_of(worker.node)).reason;
    if (!core::takes_work(state, worker)) return "its allocation goes back";
    return worker.quiet ? "is not heard just now" : "";
}

std::string lack(const core::Worker& worker, const core::Free& free,
                 const spec::Resources& wanted) {
    if (std::ssize(free.slots) < wanted.slots_per_node)
        return fmt::format("{} of {} slots are free, it needs {}", free.slots.size(), worker.slots,
                           wanted.slots_per_node);
    const auto has = [&](int percent) { return percent >= wanted.gpu_percent; };
    const auto gpus = std::ranges::count_if(free.gpus, has);
    if (gpus < wanted.gpus_per_node)
        return fmt::format("{} of {} GPUs are free enough, it needs {}", gpus, worker.gpus,
                           spec::gpus_text(wanted.gpus_per_node * wanted.gpu_percent));
    if (free.left && wanted.time > *free.left)
        return fmt::format("its allocation ends in {} s, it needs {}",
                           std::chrono::ceil<std::chrono::seconds>(*free.left).count(),
                           wanted.time.count());
    return "could hold it now";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> reasons_of_nodes(const core::State& state,
                                                                  const core::Job& job,
                                                                  const spec::Resources& wanted,
                                                                  Time now) {
    std::vector<std::pair<std::string, std::string>> reasons;
    const core::Room room = core::free_room(state, now);
    for (const auto& [id, worker] : state.workers) {
        if (reasons.size() >= kNodesMax) break;
        const auto free = room.find(id);
        std::string why = closed(state, worker);
        if (why.empty() && job.avoid.contains(worker.node)) why = "the job failed there";
        if (why.empty())
            why = free == room.end() ? "its allocation ends" : lack(worker, free->second, wanted);
        reasons.push_back({worker.node, std::move(why)});
    }
    return reasons;
}

}  // namespace roll::query
