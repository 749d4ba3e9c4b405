#include "daemon/core/invariants.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "common/check.hpp"
#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/facts/save_margin.hpp"

namespace roll::core {
namespace {

// Resources that the attempts on a worker hold: slots, hundredths of each GPU, memory and CPUs.
struct InUse {
    std::set<int> slots{};
    std::map<int, int> gpus{};
    std::int64_t memory = 0;
    int cpus = 0;
};
using Taken = std::map<WorkerId, InUse>;

// Checks one place of an attempt. The slots and GPUs of the place must exist on the worker. No slot
// may be assigned twice, and at most 100 % of a GPU may be assigned. The memory and the CPUs of all
// places on the worker must not exceed what the worker has. `taken` has the sums over the places
// checked so far.
void check_place(const State& state, const Job& job, const Place& place, Taken& taken) {
    ROLL_CHECK(std::ssize(place.slots) == job.resources().slots_per_node);
    ROLL_CHECK(std::ssize(place.gpus) == job.resources().gpus_per_node);
    ROLL_CHECK(place.gpu_percent == job.resources().gpu_percent);
    ROLL_CHECK(place.memory == job.resources().memory && place.cpus == job.resources().cpus);
    const auto worker = state.workers.find(place.worker);
    if (worker == state.workers.end()) {
        ROLL_CHECK(place.ended);
        return;
    }
    auto& [slots, gpus, memory, cpus] = taken[place.worker];
    for (int slot : place.slots) {
        ROLL_CHECK(slot >= 0 && slot < worker->second.slots);
        ROLL_CHECK(slots.insert(slot).second);
    }
    for (int gpu : place.gpus) {
        ROLL_CHECK(gpu >= 0 && gpu < worker->second.gpus);
        gpus[gpu] += place.gpu_percent;
        ROLL_CHECK(gpus[gpu] <= 100);
    }
    memory += place.memory;
    cpus += place.cpus;
    ROLL_CHECK(memory <= worker->second.memory && cpus <= worker->second.cpus);
}

// Checks that the attempt's fields are consistent with each other.
void check_fields(const Attempt& attempt) {
    ROLL_CHECK(attempt.nodes.size() == attempt.places.size());
    ROLL_CHECK(attempt.saved <= attempt.asked);
    ROLL_CHECK(attempt.phase != AttemptPhase::Starting || !attempt.started_at);
    ROLL_CHECK(attempt.phase != AttemptPhase::Running || attempt.started_at);
    ROLL_CHECK(attempt.phase == AttemptPhase::Stopping || !attempt.preempted);
    ROLL_CHECK(attempt.outcome != Outcome::Done);
    ROLL_CHECK(attempt.outcome || attempt.blamed.empty());
}

void check_attempt(const State& state, const Job& job, Taken& taken) {
    ROLL_CHECK(job.attempt.has_value());
    ROLL_CHECK(job.attempt->token.attempt == job.attempts);
    ROLL_CHECK(job.attempt->token.incarnation <= state.incarnation);
    check_fields(*job.attempt);
    const auto& places = job.attempt->places;
    const std::ptrdiff_t nodes = job.resources().nodes;
    ROLL_CHECK(std::ssize(places) >= nodes && std::ssize(places) <= job.resources().workers());
    bool all_ended = true;
    for (const Place& place : places) {
        check_place(state, job, place, taken);
        ROLL_CHECK(place.spare == (&place - places.data() >= nodes));
        ROLL_CHECK(place.ended || !place.spare);
        ROLL_CHECK(place.up || place.ended || !job.attempt->started_at);
        all_ended = all_ended && place.ended;
    }
    ROLL_CHECK(!all_ended);
}

// Checks that a job depends only on older jobs, so that jobs cannot wait for each other in a cycle.
// Checks that the jobs made from a job are newer than it.
void check_references(JobId id, const Job& job) {
    for (const spec::After& after : job.spec.after) ROLL_CHECK(after.job < id);
    ROLL_CHECK(job.spec.into.value_or(JobId{}) < id);
    ROLL_CHECK(job.spec.source_job.value_or(JobId{}) < id);
    ROLL_CHECK(job.spec.array.has_value() == (job.array != JobId{}));
    ROLL_CHECK(job.array <= id);
    ROLL_CHECK(!job.export_job || (*job.export_job > id && job.phase == JobPhase::Done));
    ROLL_CHECK(job.cron_last == JobId{} || (job.cron_last > id && !job.spec.cron.empty()));
}

// Checks a job's counts of failures against its list of ended attempts.
void check_counts(const Job& job) {
    const auto ended = std::ssize(job.past);
    ROLL_CHECK(job.infra_failures >= 0 && job.app_failures >= 0);
    ROLL_CHECK(job.timeouts >= 0 && job.preemptions >= 0);
    ROLL_CHECK(job.infra_failures + job.app_failures + job.timeouts + job.preemptions <= ended);
    ROLL_CHECK(job.stalled >= 0 && job.stalled <= ended);
    ROLL_CHECK(job.save_ms.size() <= kSavesKept);
}

void check_job(const State& state, JobId id, const Job& job) {
    check_references(id, job);
    check_counts(job);
    ROLL_CHECK(job.attempts == 0 || (!job.spec.open && job.spec.cron.empty()));
    ROLL_CHECK(job.spec.open || !job.closed);
    ROLL_CHECK(!is_over(job.phase) || (job.exit_code == 0) == (job.phase == JobPhase::Done));
    ROLL_CHECK(id.value < state.next_job);
    ROLL_CHECK(job.attempt.has_value() == (job.phase == JobPhase::Running));
    ROLL_CHECK(job.due || job.phase != JobPhase::Running);
    ROLL_CHECK(job.ended_at.has_value() == is_over(job.phase));
    ROLL_CHECK(job.past.size() + (job.attempt ? 1 : 0) == job.attempts);
    for (std::size_t i = 0; i < job.past.size(); ++i)
        ROLL_CHECK(job.past[i].token.attempt == i + 1);
    for (std::size_t i = 1; i < job.past.size(); ++i)
        ROLL_CHECK(job.past[i - 1].token < job.past[i].token);
    for (std::size_t i = 1; i < job.checkpoints.size(); ++i)
        ROLL_CHECK(job.checkpoints[i - 1].step < job.checkpoints[i].step);
    for (const Checkpoint& checkpoint : job.checkpoints)
        ROLL_CHECK(checkpoint.token.attempt >= 1 && checkpoint.token.attempt <= job.attempts);
}

// Checks the recorded use of each user against the sums over the jobs.
void check_use(const State& state) {
    std::map<User, Use> found;
    for (const auto& [id, job] : state.jobs) {
        Use& use = found[{job.spec.account, job.user}];
        use.jobs += is_over(job.phase) ? 0 : 1;
        if (!job.attempt) continue;
        use.slots += job.resources().slots();
        use.gpu_hundredths += job.resources().gpu_hundredths();
        use.gpu_ms_due += gpu_ms(job.resources(), job.resources().time);
    }
    for (const auto& [user, use] : state.use) {
        const Use& sum = found[user];
        ROLL_CHECK(use.jobs == sum.jobs);
        ROLL_CHECK(use.slots == sum.slots);
        ROLL_CHECK(use.gpu_hundredths == sum.gpu_hundredths);
        ROLL_CHECK(use.gpu_ms_due == sum.gpu_ms_due);
        ROLL_CHECK(use.gpu_ms >= 0 && use.decayed >= 0);
    }
    ROLL_CHECK(found.size() <= state.use.size());
}

// Checks the sets of queued jobs in the index against the jobs' own fields.
void check_queued(const State& state) {
    const Index& index = state.index;
    for (const auto& [group, line] : index.ready) {
        ROLL_CHECK(!line.by_priority.empty());
        for (const auto& [since, id] : line.by_age) {
            const Job& job = state.jobs.at(id);
            ROLL_CHECK(line.by_priority.contains({job.spec.priority, id}));
            ROLL_CHECK(job.phase == JobPhase::Queued && job.due && !job.held);
            ROLL_CHECK(dependencies(state, job, index) == Held::Yes);
            ROLL_CHECK(!index.doomed.contains(id));
        }
    }
    for (const auto& [at, id] : index.sleeping) {
        const Job& job = state.jobs.at(id);
        ROLL_CHECK(job.phase == JobPhase::Queued && (!job.due || !job.spec.cron.empty()));
    }
    for (const auto& [group, ids] : index.inside) {
        ROLL_CHECK(!ids.empty());
        for (const JobId id : ids) ROLL_CHECK(state.jobs.at(id).spec.into == group);
    }
}

// Checks the sums in the index against the lists that they count.
void check_sums(const State& state) {
    const Index& index = state.index;
    std::map<JobId, int> tasks;
    std::map<JobId, int> running;
    std::size_t open = 0, places = 0, held = 0;
    for (const auto& [id, job] : state.jobs) {
        open += is_over(job.phase) ? 0 : 1;
        places += job.attempt ? job.attempt->places.size() : 0;
        if (job.spec.array) ++tasks[job.array];
        if (job.spec.array && job.attempt) ++running[job.array];
    }
    for (const auto& [worker, ids] : index.by_worker) held += ids.size();
    ROLL_CHECK(index.open.size() == open);
    ROLL_CHECK(held == places);
    ROLL_CHECK(index.array_running == running);
    ROLL_CHECK(index.by_session.size() == state.workers.size());
    for (const auto& [array, counted] : index.arrays) {
        ROLL_CHECK(counted.count == tasks[array]);
        for (const AllOf& all : counted.conditions)
            ROLL_CHECK(all.waiting.empty() || (all.left > 0 && all.failed == 0));
    }
}

void check_keys(const State& state) {
    std::size_t keys = 0;
    for (const auto& [user, own] : state.keys) {
        keys += own.size();
        for (const auto& [key, id] : own)
            ROLL_CHECK(state.jobs.at(id).key == key && state.jobs.at(id).user == user);
    }
    const auto has_key = [](const auto& item) { return !item.second.key.empty(); };
    ROLL_CHECK(std::ranges::count_if(state.jobs, has_key) == static_cast<std::ptrdiff_t>(keys));
}

void check_workers(const State& state) {
    std::set<std::string> nodes;
    for (const auto& [id, worker] : state.workers) {
        ROLL_CHECK(id.value < state.next_worker);
        ROLL_CHECK(worker.slots >= 0 && worker.gpus >= 0);
        ROLL_CHECK(worker.memory >= 0 && worker.cpus >= 0);
        ROLL_CHECK(nodes.insert(worker.node).second);
        ROLL_CHECK(state.sessions.at(worker.node).back() == worker.session);
    }
    for (const auto& [node, sessions] : state.sessions)
        ROLL_CHECK(std::set(sessions.begin(), sessions.end()).size() == sessions.size());
    for (const auto& [node, generation] : state.generations)
        ROLL_CHECK(generation > 0 && state.sessions.contains(node));
    for (const auto& [name, machine] : state.machines) {
        ROLL_CHECK(machine.excluded_until.has_value() != machine.reason.empty());
        for (const Fault& fault : machine.faults)
            ROLL_CHECK(fault.job.value < state.next_job && !(fault.lost && fault.certain));
    }
}

void check_queues(const State& state) {
    for (const auto& [name, queue] : state.queues) {
        ROLL_CHECK(queue.spec.name == name);
        ROLL_CHECK(!queue.paused || !queue.reason.empty());
        ROLL_CHECK(queue.failures == 0 || queue.not_before != Time{});
        ROLL_CHECK(queue.gpu_seconds >= 0);
    }
}

void check_allocations(const State& s) {
    for (const auto& [id, allocation] : s.allocations) {
        ROLL_CHECK(id.value < s.next_allocation);
        ROLL_CHECK(s.queues.contains(allocation.queue));
        ROLL_CHECK((allocation.phase == AllocationPhase::Ordered) == allocation.slurm_job.empty());
        ROLL_CHECK(allocation.incarnation <= s.incarnation);
        ROLL_CHECK(allocation.releasing || !allocation.failed);
        ROLL_CHECK(allocation.joined == 0 || !allocation.nodes.empty());
        ROLL_CHECK(live_workers(s, id) <= allocation.joined);
    }
    for (const auto& [id, worker] : s.workers) {
        if (worker.allocation.value == 0) continue;
        const auto a = s.allocations.find(worker.allocation);
        ROLL_CHECK(a != s.allocations.end() && a->second.phase == AllocationPhase::Granted);
        ROLL_CHECK(std::ranges::count(a->second.nodes, worker.node) == 1);
    }
}

}  // namespace

void check_running(const State& state) {
    Taken taken;
    for (const JobId id : state.index.running) check_attempt(state, state.jobs.at(id), taken);
}

void check_invariants(const State& state) {
    for (const auto& [id, job] : state.jobs) check_job(state, id, job);
    check_running(state);
    check_queued(state);
    check_sums(state);
    check_use(state);
    check_keys(state);
    check_queues(state);
    check_allocations(state);
    check_workers(state);
    ROLL_CHECK(state.index == make_index(state));
}

}  // namespace roll::core
