// Explains for each node why a job that waits for free resources does not run there.
#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/schema/units.hpp"
#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/facts/availability.hpp"
#include "daemon/core/facts/machines.hpp"
#include "daemon/core/placement/capacity.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

constexpr std::size_t kNodesMax = 64;

// Returns why the worker takes no jobs now; empty if it takes jobs.
std::string closed(const core::State& state, const core::Worker& worker) {
    if (worker.draining) return "is drained";
    if (core::is_excluded(state, worker))
        return "is excluded: " + state.machines.at(core::machine_of(worker.node)).reason;
    if (!core::takes_work(state, worker))
        return state.allocations.at(worker.allocation).releasing
                   ? "the node's allocation is being released"
                   : "the node's allocation is closed";
    return worker.quiet ? "is silent" : "";
}

std::string lack(const core::Worker& worker, const core::FreeSlots& free,
                 const spec::Resources& wanted) {
    if (std::ssize(free.slots) < wanted.slots_per_node)
        return fmt::format("{} of {} {} free, but the job needs {}", free.slots.size(),
                           counted(worker.slots, "slot"), worker.slots == 1 ? "is" : "are",
                           wanted.slots_per_node);
    const auto has = [&](int percent) { return percent >= wanted.gpu_percent; };
    const auto gpus = std::ranges::count_if(free.gpus, has);
    if (gpus < wanted.gpus_per_node)
        return fmt::format("{} of {} {} enough free capacity, but the job needs {}", gpus,
                           counted(worker.gpus, "GPU"), worker.gpus == 1 ? "has" : "have",
                           spec::gpus_text(wanted.gpus_per_node * wanted.gpu_percent));
    if ((worker.memory == 0 && wanted.memory > 0) || (worker.cpus == 0 && wanted.cpus > 0))
        return "its roll-worker is of an older release, which does not report memory and CPUs";
    if (free.memory < wanted.memory)
        return fmt::format("{} of {} of memory are free, but the job needs {}",
                           spec::size_text(free.memory), spec::size_text(worker.memory),
                           spec::size_text(wanted.memory));
    if (free.cpus < wanted.cpus)
        return fmt::format("{} of {} {} free, but the job needs {}", free.cpus,
                           counted(worker.cpus, "CPU"), worker.cpus == 1 ? "is" : "are",
                           wanted.cpus);
    if (free.left && wanted.time > *free.left)
        return fmt::format("the node's allocation ends in {} s, but the job needs {} s",
                           std::chrono::ceil<std::chrono::seconds>(*free.left).count(),
                           wanted.time.count());
    return "could run a part of the job now";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> reasons_of_nodes(const core::State& state,
                                                                  const core::Job& job,
                                                                  const spec::Resources& wanted,
                                                                  Time now) {
    std::vector<std::pair<std::string, std::string>> reasons;
    const core::Capacity room = core::free_capacity(state, now);
    for (const auto& [id, worker] : state.workers) {
        if (reasons.size() >= kNodesMax) break;
        const auto free = room.find(id);
        std::string why = closed(state, worker);
        if (why.empty() && job.avoid.contains(worker.node)) why = "the job failed on this node";
        if (why.empty())
            why = free == room.end() ? "the node's allocation is about to end"
                                     : lack(worker, free->second, wanted);
        reasons.push_back({worker.node, std::move(why)});
    }
    return reasons;
}

}  // namespace roll::query
