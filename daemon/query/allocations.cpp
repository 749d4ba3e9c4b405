#include "daemon/core/allocation/allocations.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/core/allocation/budget.hpp"
#include "daemon/core/facts/availability.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

const char* state_of(const core::Allocation& a) {
    if (a.releasing) return "releasing";
    if (a.closed) return "closed";
    switch (a.phase) {
        case core::AllocationPhase::Ordered: return "ordered";
        case core::AllocationPhase::Pending: return "pending";
        case core::AllocationPhase::Granted: return "granted";
    }
    return "";
}

Json allocation_json(const core::State& state, AllocationId id, const core::Allocation& a,
                     const Hearsay& hearsay) {
    const bool granted = a.phase == core::AllocationPhase::Granted;
    const auto said = hearsay.slurm.find(id);
    return {{"id", id.value},
            {"queue", a.queue},
            {"state", state_of(a)},
            {"slurm_job", a.slurm_job},
            {"slurm_state", said == hearsay.slurm.end() ? "" : said->second},
            {"ordered_at", to_iso8601(a.ordered_at)},
            {"granted_at", granted ? Json(to_iso8601(a.granted_at)) : Json(nullptr)},
            {"ends_at", granted ? Json(to_iso8601(a.ends_at)) : Json(nullptr)},
            {"workers", core::live_workers(state, id)},
            {"nodes", a.nodes},
            {"reason", a.reason}};
}

const char* state_of(const core::AllocationQueue& queue) {
    if (queue.removing) return "removing";
    return queue.paused ? "paused" : "open";
}

Json queue_json(const core::State& state, const core::AllocationQueue& queue, Time now) {
    int waiting = 0;
    int granted = 0;
    for (const auto& [id, a] : state.allocations) {
        if (a.queue != queue.spec.name) continue;
        ++(a.phase == core::AllocationPhase::Granted ? granted : waiting);
    }
    Json json = Json::parse(spec::to_json(queue.spec));
    json["state"] = state_of(queue);
    json["reason"] = queue.reason;
    json["waiting"] = waiting;
    json["granted"] = granted;
    json["failures"] = queue.failures;
    json["proven"] = queue.proven;
    json["gpu_hours"] = queue.gpu_seconds / 3600;
    json["not_before"] =
        queue.not_before > now ? Json(to_iso8601(queue.not_before)) : Json(nullptr);
    return json;
}

}  // namespace

Json allocations(const core::State& state, const Hearsay& hearsay, Time now) {
    Json queues = Json::array();
    for (const auto& [name, queue] : state.queues) queues.push_back(queue_json(state, queue, now));
    Json list = Json::array();
    for (const auto& [id, a] : state.allocations)
        list.push_back(allocation_json(state, id, a, hearsay));
    return {{"schema", "roll.allocations/1"},
            {"queues", std::move(queues)},
            {"allocations", std::move(list)},
            {"slurm_trouble", hearsay.slurm_trouble}};
}

namespace {

int alive_of(const core::State& state, const std::string& queue) {
    return static_cast<int>(std::ranges::count_if(
        state.allocations, [&](const auto& item) { return item.second.queue == queue; }));
}

// Returns the number of workers outside the queue's allocations that could hold a member of the
// job.
int other_workers(const core::State& state, const std::string& queue,
                  const spec::Resources& wanted) {
    return static_cast<int>(std::ranges::count_if(state.workers, [&](const auto& item) {
        const core::Worker& worker = item.second;
        const auto brought_by = state.allocations.find(worker.allocation);
        if (brought_by != state.allocations.end() && brought_by->second.queue == queue)
            return false;
        return core::takes_work(state, worker) && core::is_large_enough(worker, wanted);
    }));
}

// Returns the limits of the queue that do not allow `nodes` nodes at the same time. The limits are
// written as options of rollctl. `alive` is the number of the queue's live allocations.
std::vector<std::string> limits_below(const core::AllocationQueue& queue, int alive, int nodes) {
    std::vector<std::string> found;
    const auto look = [&](int spec::PilotQueue::*limit, std::string text) {
        core::AllocationQueue alone = queue;
        alone.spec.max_jobs = alone.spec.max_nodes = alone.spec.max_gpu_hours = 0;
        alone.spec.*limit = queue.spec.*limit;
        if (core::most_alive(alone, alive) < (nodes + queue.spec.nodes - 1) / queue.spec.nodes)
            found.push_back(std::move(text));
    };
    const spec::PilotQueue& spec = queue.spec;
    look(&spec::PilotQueue::max_jobs, fmt::format("--max-jobs {}", spec.max_jobs));
    look(&spec::PilotQueue::max_nodes, fmt::format("--max-nodes {}", spec.max_nodes));
    look(&spec::PilotQueue::max_gpu_hours,
         fmt::format("--max-gpu-hours {}, of which {} are used", spec.max_gpu_hours,
                     queue.gpu_seconds / 3600));
    return found;
}

// Returns a hold if the job needs more nodes than the queue's limits ever allow at once; nullopt if
// the limits allow enough nodes.
std::optional<Hold> too_wide(const core::State& state, const std::string& name,
                             const core::AllocationQueue& queue, const spec::Resources& wanted) {
    const int alive = alive_of(state, name);
    const int others = other_workers(state, name, wanted);
    const int missing = wanted.workers() - others;
    const auto limits = limits_below(queue, alive, missing);
    if (limits.empty()) return std::nullopt;
    const int most = core::most_alive(queue, alive) * queue.spec.nodes;
    return Hold{
        "allocation",
        fmt::format("allocation queue {} provides at most {} node{} at once ({}); the job needs {} "
                    "from this queue",
                    name, most, most == 1 ? "" : "s", fmt::join(limits, "; "), missing),
        fmt::format("add a queue with higher limits (rollctl alloc add), or resubmit with {}",
                    missing > 1 ? "fewer nodes" : "fewer GPUs or less time")};
}

// Returns the hold that explains why a queue with `alive` live allocations requests nothing now.
Hold queue_hold(const std::string& name, const core::AllocationQueue& queue, int alive, Time now) {
    const auto hold = [](std::string why, std::string remedy, bool comes = true) {
        return Hold{"allocation", std::move(why), std::move(remedy), {}, comes};
    };
    if (queue.paused)
        return hold(fmt::format("allocation queue {} is paused: {}", name, queue.reason),
                    fmt::format("rollctl alloc resume {}", name), false);
    if (queue.not_before > now)
        return hold(
            fmt::format("allocation queue {} waits until {} before it asks Slurm again; its last "
                        "request failed: {}",
                        name, to_iso8601(queue.not_before), queue.reason),
            fmt::format("rolld then asks Slurm again by itself; to ask at once: rollctl alloc "
                        "resume {0}; to change the queue: rollctl alloc remove {0}, then alloc add",
                        name));
    if (queue.spec.min_percent > 0 && alive < core::most_alive(queue, alive))
        return hold(
            fmt::format(
                "allocation queue {} requests an allocation only if jobs use at least {} % of "
                "it; the waiting jobs would use less",
                name, queue.spec.min_percent),
            fmt::format("submit more jobs; or remove the queue (rollctl alloc remove {}) and add "
                        "it again with a lower --min-utilization",
                        name));
    return hold(fmt::format("allocation queue {} is at its limits", name),
                "rolld requests allocations again by itself once the queue's limits allow more; "
                "to watch: rollctl alloc list");
}

}  // namespace

std::string on_order(const core::State& state, const spec::Resources& wanted) {
    for (const auto& [id, a] : state.allocations) {
        if (a.phase == core::AllocationPhase::Granted || a.releasing || a.closed) continue;
        const core::AllocationQueue& queue = state.queues.at(a.queue);
        if (core::offers(queue.spec, wanted) && !too_wide(state, a.queue, queue, wanted))
            return fmt::format("allocation {} of queue {}", id.value, a.queue);
    }
    return {};
}

namespace {

// Like on_order(), but for an allocation that is granted and whose workers have not all joined yet.
std::string to_come(const core::State& state, const spec::Resources& wanted, Time now) {
    for (const auto& [id, a] : state.allocations) {
        if (a.phase != core::AllocationPhase::Granted || a.releasing || a.closed) continue;
        const core::AllocationQueue& queue = state.queues.at(a.queue);
        if (a.joined >= queue.spec.nodes || a.granted_at + core::kJoinGrace <= now) continue;
        if (core::offers(queue.spec, wanted) && !too_wide(state, a.queue, queue, wanted))
            return fmt::format("allocation {} of queue {}", id.value, a.queue);
    }
    return {};
}

}  // namespace

std::optional<Hold> supply_hold(const core::State& state, const spec::Resources& wanted, Time now) {
    if (state.queues.empty()) return std::nullopt;
    if (const std::string order = on_order(state, wanted); !order.empty())
        return Hold{"allocation",
                    "waits for " + order,
                    "the job starts by itself once Slurm grants the allocation; to watch: rollctl "
                    "alloc list",
                    {},
                    true};
    if (const std::string coming = to_come(state, wanted, now); !coming.empty())
        return Hold{"allocation",
                    "waits for the workers of " + coming + ", which Slurm has granted",
                    "the job starts by itself once these workers have connected; to watch: rollctl "
                    "alloc list",
                    {},
                    true};
    std::optional<Hold> paused;
    std::optional<Hold> never;
    for (const auto& [name, queue] : state.queues) {
        if (queue.removing || !core::offers(queue.spec, wanted)) continue;
        if (auto wide = too_wide(state, name, queue, wanted)) {
            if (!never) never = std::move(wide);
            continue;
        }
        if (!queue.paused) return queue_hold(name, queue, alive_of(state, name), now);
        paused = queue_hold(name, queue, alive_of(state, name), now);
    }
    if (paused) return paused;
    if (never) return never;
    const bool silent = wanted.memory > 0 && std::ranges::any_of(state.queues, [&](const auto& q) {
                            spec::PilotQueue told = q.second.spec;
                            told.memory = told.memory == 0 ? wanted.memory : 0;
                            return !q.second.removing && core::offers(told, wanted);
                        });
    if (silent)
        return Hold{"allocation",
                    "the job asks for memory, but the allocation queues do not say how much memory "
                    "their nodes have",
                    "add a queue with `rollctl alloc add --memory SIZE`, or resubmit without "
                    "resources.memory"};
    return Hold{"allocation", "no allocation queue offers large enough nodes for enough time",
                "add a queue with larger nodes or more time (rollctl alloc add), or resubmit with "
                "smaller resources"};
}

}  // namespace roll::query
