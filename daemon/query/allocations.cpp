#include "daemon/core/allocations.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

const char* state_of(const core::Allocation& a) {
    if (a.releasing) return "releasing";
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

bool offers(const spec::PilotQueue& queue, const spec::Resources& wanted) {
    return queue.slots >= wanted.slots_per_node && queue.gpus >= wanted.gpus_per_node &&
           wanted.time <= queue.time - queue.margin();
}

// Of a queue of which so many are alive, and which orders nothing now.
Hold queue_hold(const std::string& name, const core::AllocationQueue& queue, int alive, Time now) {
    const auto hold = [](std::string why, std::string remedy) {
        return Hold{"allocation", std::move(why), std::move(remedy)};
    };
    if (queue.paused)
        return hold(fmt::format("allocation queue {} is paused: {}", name, queue.reason),
                    fmt::format("rollctl alloc resume {}", name));
    if (queue.not_before > now)
        return hold(fmt::format("allocation queue {} backs off until {}, its last order failed: {}",
                                name, to_iso8601(queue.not_before), queue.reason),
                    fmt::format("it orders again by itself then, or at once: rollctl alloc resume "
                                "{0}; to change what it says, rollctl alloc remove {0} and add",
                                name));
    if (queue.spec.min_percent > 0 && alive < core::most_alive(queue, alive))
        return hold(
            fmt::format("allocation queue {} orders only what is used to {} %, and the jobs that "
                        "wait would use less",
                        name, queue.spec.min_percent),
            fmt::format("submit more, or rollctl alloc remove {0} and add it with a lower "
                        "--min-utilization",
                        name));
    return hold(fmt::format("allocation queue {} is at its limits", name),
                "one is ordered by itself as soon as it may; rollctl alloc list");
}

}  // namespace

std::string on_order(const core::State& state, const spec::Resources& wanted) {
    for (const auto& [id, a] : state.allocations) {
        if (a.phase == core::AllocationPhase::Granted || a.releasing) continue;
        if (offers(state.queues.at(a.queue).spec, wanted))
            return fmt::format("allocation {} of queue {}", id.value, a.queue);
    }
    return {};
}

std::optional<Hold> supply_hold(const core::State& state, const spec::Resources& wanted, Time now) {
    if (state.queues.empty()) return std::nullopt;
    if (const std::string order = on_order(state, wanted); !order.empty())
        return Hold{"allocation", "waits for " + order,
                    "it starts by itself when Slurm has granted it; rollctl alloc list"};
    std::optional<Hold> paused;
    for (const auto& [name, queue] : state.queues) {
        if (!offers(queue.spec, wanted)) continue;
        const auto alive = static_cast<int>(std::ranges::count_if(
            state.allocations, [&](const auto& item) { return item.second.queue == name; }));
        if (!queue.paused) return queue_hold(name, queue, alive, now);
        paused = queue_hold(name, queue, alive, now);
    }
    if (paused) return paused;
    return Hold{"allocation", "no allocation queue offers such nodes for so long",
                "rollctl alloc add one with larger nodes or more time, or submit it again with "
                "less in resources"};
}

}  // namespace roll::query
