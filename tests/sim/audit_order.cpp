// The auditor's model of the order in which jobs start: which job is first, which may start behind
// it, and which may be stopped for it. Computed over all jobs, from what the rules promise.
#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/facts/machines.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

bool Auditor::takes_work(const Worker& worker) const {
    return !worker.draining && !goes_back(worker) && !is_closed(worker) &&
           !excluded_.contains(core::machine_of(worker.node));
}

Auditor::Room Auditor::room(const Occupied& occupied) const {
    Room free;
    for (const auto& [id, worker] : workers_) {
        if (!takes_work(worker) || worker.quiet) continue;
        for (int i = 0; i < worker.slots; ++i) free[id].slots.insert(i);
        for (int i = 0; i < worker.gpus; ++i) free[id].gpus[i] = 100;
        free[id].memory = worker.memory;
        free[id].cpus = worker.cpus;
    }
    for (const auto& [id, j] : jobs_) {
        if (!j.run || !occupied(j)) continue;
        for (const Member& m : j.run->members) {
            const auto found = free.find(m.place.worker);
            if (found == free.end()) continue;
            for (int slot : m.place.slots) found->second.slots.erase(slot);
            for (int gpu : m.place.gpus) found->second.gpus.at(gpu) -= m.place.gpu_percent;
            found->second.memory -= j.run->given.memory;
            found->second.cpus -= j.run->given.cpus;
        }
    }
    return free;
}

// Returns the part of `room` that the job may use: without the nodes where it failed, if the other
// nodes could hold it.
Auditor::Room Auditor::open_to(const Job& j, Room room, Time now) const {
    if (j.avoid.empty()) return room;
    const auto is_avoided = [&](const auto& item) {
        return j.avoid.contains(workers_.at(item.first).node);
    };
    Room others = Auditor::room([](const Job&) { return false; });
    std::erase_if(others, is_avoided);
    const auto holds = [&](const auto& wanted) { return fits(wanted, others, now); };
    if (std::ranges::any_of(shapes(j, now), holds)) std::erase_if(room, is_avoided);
    return room;
}

// Returns `afters` with each dependency on an array replaced by dependencies on the array's jobs.
std::vector<spec::After> Auditor::each_awaited(const std::vector<spec::After>& afters) const {
    std::vector<spec::After> each;
    for (const spec::After& after : afters) {
        const bool all = jobs_.at(after.job).array == after.job;
        for (const auto& [id, other] : jobs_)
            if (id == after.job || (all && other.array == after.job))
                each.push_back({after.condition, id, all});
    }
    return each;
}

Time Auditor::end_awaited(const spec::After& after) const {
    const Job& other = jobs_.at(after.job);
    const bool exports = after.condition == spec::After::Condition::Exported && other.export_job;
    return exports ? jobs_.at(*other.export_job).ended.value() : other.ended.value();
}

Time Auditor::ready_since(const Job& j) const {
    Time since = std::max(j.submitted, due_at(j));
    since = std::max(since, j.requeued);
    for (const spec::After& after : j.spec.after) since = std::max(since, end_awaited(after));
    return since;
}

Auditor::Waiting Auditor::rank(JobId id, const Job& j, Time now) const {
    const Time since = ready_since(j);
    const bool starves = since + policy_.starve_after <= now;
    return {{!starves, starves ? since : Time{}, starves ? 0 : -j.spec.priority, id}, &j};
}

// Returns the jobs that only missing capacity blocks, in order.
std::vector<Auditor::Waiting> Auditor::waiting(Time now) const {
    const Room all = room([](const Job&) { return false; });
    std::vector<Waiting> list;
    for (const auto& [id, j] : jobs_) {
        if (!due(j, now)) continue;
        for (const spec::Resources& wanted : shapes(j, now)) {
            if (!fits(wanted, open_to(j, all, now), now)) continue;
            list.push_back(rank(id, j, now));
            list.back().wanted = wanted;
            break;
        }
    }
    std::ranges::sort(list, {}, &Waiting::rank);
    return list;
}

// Returns the variants in which the job may start now: within the quotas and before its deadline.
std::vector<spec::Resources> Auditor::shapes(const Job& j, Time now, const Some& promised) const {
    std::vector<spec::Resources> list;
    for (int i = 0; i < j.spec.shapes(); ++i) {
        const spec::Resources& wanted = j.spec.shape(i);
        const bool late = j.spec.deadline && now + wanted.time > *j.spec.deadline;
        if (!late && quota_allows(j, wanted, promised)) list.push_back(wanted);
    }
    return list;
}

// Returns whether the job's running attempt may still hold its places at the time `at`.
bool Auditor::holds_for(const Job& j, Time at, Time now) const {
    std::optional<Time> end = j.spec.deadline;
    if (j.run->given.time.count() > 0)
        end = std::min(end.value_or(Time::max()), j.run->since + j.run->given.time);
    return !end || std::max(*end, now) > at;
}

// Returns the time at which the job fits at the latest, if the jobs `without` do not run; nullopt
// if unknown.
std::optional<Time> Auditor::earliest(const Waiting& first, Time now,
                                      const Occupied& without) const {
    std::set<Time> ends{now};
    for (const auto& [id, j] : jobs_) {
        if (!j.run) continue;
        if (j.spec.deadline) ends.insert(std::max(*j.spec.deadline, now));
        if (j.run->given.time.count() > 0)
            ends.insert(std::max(j.run->since + j.run->given.time, now));
    }
    for (const Time at : ends) {
        const auto there = [&](const Job& j) { return !without(j) && holds_for(j, at, now); };
        if (fits(first.wanted, open_to(*first.job, room(there), now), now)) return at;
    }
    return std::nullopt;
}

namespace {

auto without_number(const std::tuple<bool, Time, std::int64_t, JobId>& rank) {
    return std::tuple(std::get<0>(rank), std::get<1>(rank), std::get<2>(rank));
}

}  // namespace

// Checks that no job that could run is left waiting. Also checks that the jobs that started behind
// a waiting job do not delay the waiting job, if every attempt uses its whole time.
void Auditor::check_placement(Time now) const {
    const auto list = waiting(now);
    if (stopped_ || adopting_ || list.empty()) return;
    const Room free = room([](const Job&) { return true; });
    const auto starts = [&](const Waiting& one) {
        return std::ranges::any_of(shapes(*one.job, now), [&](const spec::Resources& wanted) {
            return fits(wanted, open_to(*one.job, free, now), now);
        });
    };
    const bool lends = std::ranges::any_of(policy_.accounts, [](const auto& item) {
        return item.second.quota.borrow_slots + item.second.quota.borrow_gpus > 0;
    });
    if (policy_.half_life.count() == 0 && !lends) {
        ROLL_CHECK(!starts(list.front()));
        check_backfill(list.front(), now);
        return;
    }
    // With fair share, any job of the same priority may be first. With borrowed quotas, any job may
    // be first.
    ROLL_CHECK(std::ranges::any_of(list, [&](const Waiting& one) {
        return (lends || without_number(one.rank) == without_number(list.front().rank)) &&
               !starts(one);
    }));
}

void Auditor::check_backfill(const Waiting& first, Time now) const {
    std::set<const Job*> behind;  // jobs started in this turn although they are behind `first`
    for (const auto& [id, j] : jobs_) {
        const bool placed_now =
            j.run && !j.run->started && j.placed == now && j.placed_in == turn_ && !j.run->replaces;
        if (placed_now && rank(id, j, now).rank > first.rank) behind.insert(&j);
    }
    ROLL_CHECK(policy_.backfill || behind.empty());
    const auto new_ones = [&](const Job& j) { return behind.contains(&j); };
    const auto none = [](const Job&) { return false; };
    const auto promised = earliest(first, now, new_ones);
    const auto left = earliest(first, now, none);
    if (promised) {
        ROLL_CHECK(left && *left <= *promised);
    } else {
        ROLL_CHECK(fits(first.wanted, open_to(*first.job, room(new_ones), now), now));
    }
    if (!policy_.backfill || !left) return;
    const Room free = room([](const Job&) { return true; });
    // A job that certainly ends before the first job can start must not wait.
    for (const Waiting& later : waiting(now)) {
        for (const auto& wanted : shapes(*later.job, now, {{first.job, first.wanted}})) {
            const bool harmless = wanted.time.count() > 0 && now + wanted.time + 30s <= *left;
            ROLL_CHECK(!harmless || !fits(wanted, open_to(*later.job, free, now), now));
        }
    }
}

// Checks a preemption: it is for a waiting job, after the victim has run for min_run. The victim
// has a lower priority, or borrows quota that belongs to the waiting job.
void Auditor::check_preemption(const core::AttemptStopping& e) const {
    if (e.reason.starts_with("queued again")) return;  // a user requested it
    const Job& victim = jobs_.at(e.attempt.job);
    ROLL_CHECK(!stopped_ && !adopting_ && policy_.preempt && victim.run->started);
    ROLL_CHECK(victim.run->since + policy_.min_run <= now_);
    const std::string by = "preempted by job ";
    ROLL_CHECK(e.reason.starts_with(by));
    const Job& first = jobs_.at(JobId{std::stoull(e.reason.substr(by.size()))});
    ROLL_CHECK(due(first, now_));
    const bool lower = victim.spec.priority < first.spec.priority;
    ROLL_CHECK(lower || (owns(first) && borrows(victim)));
}

}  // namespace roll::sim
