#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/apply/on.hpp"

namespace roll::core {
namespace {

// Shifts times by `step`. A time equal to Time{} is unset and is not shifted.
struct Mover {
    std::chrono::milliseconds step;

    void operator()(Time& time) const {
        if (time != Time{}) time += step;
    }
    void operator()(std::optional<Time>& time) const {
        if (time) *time += step;
    }
    void operator()(Job& job) const {
        for (Time* time : {&job.submitted_at, &job.not_before}) (*this)(*time);
        (*this)(job.ended_at);
        for (EndedAttempt& past : job.past) {
            for (Time* time : {&past.placed_at, &past.ended_at}) (*this)(*time);
            (*this)(past.started_at);
        }
        if (!job.attempt) return;
        (*this)(job.attempt->placed_at);
        (*this)(job.attempt->started_at);
    }
    void operator()(Machine& machine) const {
        for (Fault& fault : machine.faults) (*this)(fault.at);
        (*this)(machine.excluded_until);
    }
    void operator()(Allocation& a) const {
        for (Time* time : {&a.ordered_at, &a.granted_at, &a.used_at}) (*this)(*time);
    }
};

// Shifts every recorded time by `step`, so that the time since each recorded time stays the same.
// Wall clock times do not change: begin times, deadlines, cron times, and the end of an allocation
// as Slurm reports it.
void move_instants(State& state, std::chrono::milliseconds step) {
    const Mover move{step};
    for (auto& [id, job] : state.jobs) move(job);
    for (auto& [id, worker] : state.workers) move(worker.joined_at);
    for (auto& [name, machine] : state.machines) move(machine);
    for (auto& [name, queue] : state.queues) move(queue.not_before);
    for (auto& [id, allocation] : state.allocations) move(allocation);
    for (auto& [user, use] : state.use) move(use.at);
    Index moved = make_index(state);  // rebuild the index, because it is sorted by time
    ROLL_CHECK(moved.open == state.index.open && moved.by_worker == state.index.by_worker);
    ROLL_CHECK(moved.sleeping.size() == state.index.sleeping.size());
    state.index = std::move(moved);
}

}  // namespace

void on(State& s, const IncarnationRaised& e) {
    ROLL_CHECK(e.incarnation > s.incarnation);
    s.incarnation = e.incarnation;
    s.next_job = std::max(s.next_job, e.next_job);
    for (auto& [id, worker] : s.workers) worker.quiet = true;
}
void on(State& s, const AdoptingSet& e) { s.adopting = e.adopting; }
// Sets the policy. Before that, decays the users' resource use up to now with the half-life of the
// previous policy.
void on(State& s, const PolicySet& e) {
    for (auto& [user, use] : s.use) {
        use.decayed = use_at(use, e.at, s.policy.half_life);
        use.at = std::max(use.at, e.at);
    }
    s.policy = e.policy;
}
// Sets the names of the existing secrets, and updates the index of jobs that use a secret.
void on(State& s, const SecretsKnown& e) {
    s.secrets = e.names;
    const std::set<JobId> open = s.index.open;
    for (const JobId id : open) {
        if (s.jobs.at(id).spec.secrets.empty()) continue;
        unfile(s, id);
        file(s, id);
    }
}
void on(State& s, const ClockStepped& e) { move_instants(s, std::chrono::milliseconds(e.by_ms)); }
void on(State& s, const UseCarried& e) {
    Use& use = s.use[{e.account, e.user}];
    use.gpu_ms = e.gpu_ms;
    use.decayed = e.decayed;
    use.at = e.at;
}
void on(State& s, const DispatchStopped& e) {
    s.stopped = e.stopped ? std::optional(e.why) : std::nullopt;
}

}  // namespace roll::core
