#include "daemon/core/wakeup.hpp"

#include <chrono>
#include <set>

#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/facts/save_margin.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

constexpr JobId kLastJob{~std::uint64_t{0}};

void earliest(std::optional<Time>& wakeup, Time at, Time now) {
    if (at > now && (!wakeup || at < *wakeup)) wakeup = at;
}

// Moves `wakeup` to the next time at which a queued job no longer fits into the remaining time of
// an allocation. From then on, the allocation need not be kept free for the job.
void add_last_starts(const State& state, Time now, std::optional<Time>& wakeup) {
    std::set<std::chrono::seconds> times;
    for (const auto& [group, line] : state.index.ready) {
        times.insert(group.resources.time);
        for (const spec::Resources& one : group.variants) times.insert(one.time);
    }
    for (const auto& [id, a] : state.allocations) {
        if (a.phase != AllocationPhase::Granted || a.releasing) continue;
        const Time leaves = a.ends_at - state.queues.at(a.queue).spec.margin();
        for (const auto time : times) earliest(wakeup, leaves - time + 1ms, now);
    }
}

}  // namespace

std::optional<Time> next_wakeup(const State& state, Time now) {
    std::optional<Time> wakeup;
    const Index& index = state.index;
    if (!index.sleeping.empty()) earliest(wakeup, index.sleeping.begin()->first, now);
    // Ignore deadlines that have passed: their jobs have ended, or their attempts are stopping.
    const auto deadline = index.deadlines.lower_bound({now, JobId{}});
    if (deadline != index.deadlines.end()) earliest(wakeup, deadline->first + 1ms, now);
    // Wake when a waiting job has waited for `starve_after`, or may preempt other jobs.
    for (const auto& [group, line] : index.ready) {
        const auto next = line.by_age.upper_bound({now - state.policy.starve_after, kLastJob});
        if (next != line.by_age.end())
            earliest(wakeup, next->first + state.policy.starve_after, now);
    }
    for (const JobId id : index.running) {
        const Job& job = state.jobs.at(id);
        if (state.policy.preempt && !index.ready.empty() && job.attempt->started_at)
            earliest(wakeup, *job.attempt->started_at + state.policy.min_run, now);
        const auto limit = run_limit(job.resources().time, job.save_ms);
        if (limit.count() > 0)
            earliest(wakeup, job.attempt->started_at.value_or(job.attempt->placed_at) + limit, now);
    }
    for (const auto& [name, machine] : state.machines) {
        if (machine.excluded_until) earliest(wakeup, *machine.excluded_until, now);
    }
    add_last_starts(state, now, wakeup);
    if (const auto at = allocation_wakeup(state, now)) earliest(wakeup, *at, now);
    return wakeup;
}

}  // namespace roll::core
