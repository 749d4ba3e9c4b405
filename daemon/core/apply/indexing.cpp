#include "daemon/core/apply/indexing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::core {
namespace {

Group group_of(const Job& job) {
    Group group{job.spec.resources, job.spec.variants};
    if (job.spec.array) group.array = job.array;
    group.account = job.spec.account;
    group.user = job.user;
    return group;
}

// Returns the job's time in Index::deadlines: for a queued job the last time at which it may start,
// for a running job the time until which it may run.
Time last_instant(const Job& job) {
    const bool queued = job.phase == JobPhase::Queued;
    return *job.spec.deadline - (queued ? job.spec.shortest_time() : std::chrono::seconds(0));
}

void count_array(Index& index, const Job& job, int by) {
    if (!job.attempt || !job.spec.array) return;
    int& running = index.array_running[job.array];
    running += by;
    ROLL_CHECK(running >= 0);
    if (running == 0) index.array_running.erase(job.array);
}

// Adds one job of an array to the array's counts if `by` is 1. Removes the job if `by` is -1. There
// is one count (AllOf) for each condition that a dependency on the array may have.
void count_task(const State& state, JobId id, const Job& job, int by, Index& index) {
    Tasks& tasks = index.arrays[job.array];
    tasks.count += by;
    for (std::size_t i = 0; i < tasks.conditions.size(); ++i) {
        AllOf& all = tasks.conditions.at(i);
        const spec::After after{static_cast<spec::After::Condition>(i), id};
        const Held held = holds_for_task(state, id, after.condition, index);
        if (held == Held::Not) all.left += by;
        if (held == Held::Never) all.failed += by;
        ROLL_CHECK(all.left >= 0 && all.failed >= 0 && all.left + all.failed <= tasks.count);
        if (held == Held::Yes) all.met = std::max(all.met, ended_at(state, awaited(state, after)));
    }
}

void join(ReadyJobs& line, const State& state, JobId id, const Job& job, const Index& index) {
    const bool first = line.by_priority.insert({job.spec.priority, id}).second;
    ROLL_CHECK(first && line.by_age.insert({ready_since(state, job, index), id}).second);
}

void leave(Index& index, const State& state, JobId id, const Job& job) {
    const auto line = index.ready.find(group_of(job));
    if (line == index.ready.end() || line->second.by_priority.erase({job.spec.priority, id}) == 0)
        return;
    ROLL_CHECK(line->second.by_age.erase({ready_since(state, job, index), id}) == 1);
    if (line->second.by_priority.empty()) index.ready.erase(line);
}

void add_queued(const State& state, JobId id, const Job& job, Index& index) {
    const Held held = dependencies(state, job, index);
    if (job.cancel_requested || held == Held::Never) {
        index.doomed.insert(id);
        return;
    }
    if (job.spec.open) {
        if (job.closed) index.closed.insert(id);
        return;
    }
    // A cron job only queues other jobs and never runs itself.
    const bool cron = !job.spec.cron.empty();
    if (!job.due || cron) index.sleeping.insert({due_at(job), id});
    const bool ready = !cron && job.due && !job.held && held == Held::Yes;
    if (ready && !missing_secret(state.secrets, job.user, job.spec))
        join(index.ready[group_of(job)], state, id, job, index);
}

std::set<JobId>& waiting_for(Index& index, const spec::After& after) {
    return index.arrays.at(after.job)
        .conditions.at(static_cast<std::size_t>(after.condition))
        .waiting;
}

void add(const State& state, JobId id, Index& index) {
    const Job& job = state.jobs.at(id);
    if (job.attempt) index.running.insert(id);
    count_array(index, job, 1);
    if (job.phase == JobPhase::Queued) add_queued(state, id, job, index);
    const bool exports = job.phase == JobPhase::Done && !job.spec.export_document.empty();
    if (exports && !job.export_job) index.to_export.insert(id);
    if (is_over(job.phase)) return;
    ROLL_CHECK(index.open.insert(id).second);
    if (job.spec.into) index.inside[*job.spec.into].insert(id);
    if (job.spec.deadline) index.deadlines.insert({last_instant(job), id});
    for (const spec::After& after : job.spec.after) {
        if (!may_change(state, after, index)) continue;
        (after.array ? waiting_for(index, after) : index.dependents[awaited(state, after)])
            .insert(id);
    }
}

void add_places(JobId id, const Job& job, Index& index) {
    for (const Place& place : job.attempt->places)
        ROLL_CHECK(index.by_worker[place.worker].insert(id).second);
}

// Removes `value` from the set of `key`. Removes the set if it becomes empty.
template <class Map>
void erase_from(Map& map, const typename Map::key_type& key,
                const typename Map::mapped_type::key_type& value) {
    const auto found = map.find(key);
    if (found == map.end()) return;
    found->second.erase(value);
    if (found->second.empty()) map.erase(found);
}

}  // namespace

void unfile(State& state, JobId id) {
    const Job& job = state.jobs.at(id);
    Index& index = state.index;
    index.open.erase(id);
    index.running.erase(id);
    index.doomed.erase(id);
    index.to_export.erase(id);
    index.closed.erase(id);
    if (job.spec.into) erase_from(index.inside, *job.spec.into, id);
    index.sleeping.erase({due_at(job), id});
    if (job.spec.deadline) index.deadlines.erase({last_instant(job), id});
    leave(index, state, id, job);
    for (const spec::After& after : job.spec.after) {
        if (after.array && all_of(index, after)) waiting_for(index, after).erase(id);
        if (after.array) continue;
        erase_from(index.dependents, after.job, id);
        erase_from(index.dependents, awaited(state, after), id);
    }
    count_array(index, job, -1);
    for (const JobId task : tasks_at(state, id))
        count_task(state, task, state.jobs.at(task), -1, index);
}

static void file_anew(State& state, const std::set<JobId>& ids) {
    for (const JobId id : ids) {
        unfile(state, id);
        file(state, id);
    }
}

// Adds the job to the index. If the job has ended, also updates the jobs that depend on it, because
// its outcome decides whether they may start. Jobs that depend on a whole array are updated only
// once their condition is decided: it is met, or can no longer be met.
void file(State& state, JobId id) {
    const std::vector<JobId> tasks = tasks_at(state, id);
    for (const JobId task : tasks) count_task(state, task, state.jobs.at(task), 1, state.index);
    add(state, id, state.index);
    if (!is_over(state.jobs.at(id).phase)) return;
    const auto waiting = state.index.dependents.extract(id);
    if (!waiting.empty()) file_anew(state, waiting.mapped());
    for (const JobId task : tasks) {
        for (AllOf& all : state.index.arrays.at(state.jobs.at(task).array).conditions) {
            if (all.left == 0 || all.failed > 0) file_anew(state, std::exchange(all.waiting, {}));
        }
    }
}

void unfile_places(State& state, JobId id) {
    for (const Place& place : state.jobs.at(id).attempt->places) {
        ROLL_CHECK(jobs_on(state, place.worker).contains(id));
        erase_from(state.index.by_worker, place.worker, id);
    }
}

void file_places(State& state, JobId id) { add_places(id, state.jobs.at(id), state.index); }

Index make_index(const State& state) {
    Index index;
    for (const auto& [id, job] : state.jobs)
        if (job.spec.array) count_task(state, id, job, 1, index);
    for (const auto& [id, job] : state.jobs) {
        add(state, id, index);
        if (job.attempt) add_places(id, job, index);
    }
    for (const auto& [id, worker] : state.workers) index.by_session[worker.session] = id;
    return index;
}

}  // namespace roll::core
