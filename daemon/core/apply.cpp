#include <algorithm>
#include <iterator>

#include "common/check.hpp"
#include "daemon/core/allocations.hpp"
#include "daemon/core/clock.hpp"
#include "daemon/core/exit_policy.hpp"
#include "daemon/core/faults.hpp"
#include "daemon/core/index.hpp"
#include "daemon/core/indexing.hpp"
#include "daemon/core/lookups.hpp"
#include "daemon/core/save_margin.hpp"

namespace roll::core {
namespace {

template <class Map>
auto& at(Map& map, const typename Map::key_type& id) {
    const auto found = map.find(id);
    ROLL_CHECK(found != map.end());
    return found->second;
}

// Returns how much an outcome explains an attempt's failure. A member that rolld or a lost peer
// stopped explains less than a member that failed by itself.
int blame(Outcome outcome, int exit_code) {
    constexpr int kExitPeerLost = 76;  // exit status of a rank that lost a peer (docs/internals.md)
    switch (outcome) {
        case Outcome::Done: return 0;
        case Outcome::Yielded:
        case Outcome::Stopped: return 1;
        case Outcome::Infra: return exit_code == kExitPeerLost ? 2 : 3;
        case Outcome::App:
        case Outcome::Invalid: return 3;
    }
    return 0;
}

Job& current(State& s, const AttemptKey& key) {
    Job& job = at(s.jobs, key.job);
    ROLL_CHECK(job.attempt && job.attempt->token == key.token);
    return job;
}

void on(State& s, const IncarnationRaised& e) {
    ROLL_CHECK(e.incarnation > s.incarnation);
    s.incarnation = e.incarnation;
    s.next_job = std::max(s.next_job, e.next_job);
    for (auto& [id, worker] : s.workers) worker.quiet = true;
}
void on(State& s, const AdoptingSet& e) { s.adopting = e.adopting; }
Use& use_of(State& s, const Job& job) { return s.use[{job.spec.account, job.user}]; }

// Sets the policy. The use up to now is decayed with the half-life of the previous policy.
void on(State& s, const PolicySet& e) {
    for (auto& [user, use] : s.use) {
        use.decayed = use_at(use, e.at, s.policy.half_life);
        use.at = std::max(use.at, e.at);
    }
    s.policy = e.policy;
}
// Sets the names of the existing secrets, and updates the index of jobs that use one of them.
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
void on(State& s, const JobSubmitted& e) {
    ROLL_CHECK(e.job.value >= s.next_job);
    s.next_job = e.job.value + 1;
    const auto added = s.jobs.try_emplace(e.job).first;
    Job& job = added->second;
    job.spec = e.spec;
    // The documents of an array's jobs are similar, and often those of jobs in a row.
    if (added != s.jobs.begin())
        job.spec.document.share_with(std::prev(added)->second.spec.document);
    job.key = e.key;
    job.user = e.user;
    job.submitted_at = e.at;
    job.held = e.spec.hold;
    job.array = e.array;
    job.due = due_at(job) <= e.at;
    ++use_of(s, job).jobs;
    // The cron job may have been removed from the ledger (--keep-ended).
    if (const auto cron = s.jobs.find(e.cron); cron != s.jobs.end()) cron->second.cron_last = e.job;
    if (!e.key.empty()) s.keys[e.user][e.key] = e.job;
}
void on(State& s, const ExportQueued& e) { at(s.jobs, e.parent).export_job = e.job; }
void on(State& s, const JobHeld& e) { at(s.jobs, e.job).held = e.held; }
void on(State& s, const JobClosed& e) { at(s.jobs, e.job).closed = true; }
void on(State& s, const JobPriorityChanged& e) { at(s.jobs, e.job).spec.priority = e.priority; }
void on(State& s, const JobCancelRequested& e) {
    Job& job = at(s.jobs, e.job);
    ROLL_CHECK(!is_over(job.phase));
    job.cancel_requested = true;
    job.cancel_reason = e.reason;
}
void on(State& s, const JobRequeued& e) {
    Job& job = at(s.jobs, e.job);
    ROLL_CHECK(job.phase == JobPhase::Running && !job.attempt);
    job.phase = JobPhase::Queued;
    job.not_before = e.not_before;
    job.infra_failures = e.infra_failures;
    job.app_failures = e.app_failures;
    job.timeouts = e.timeouts;
    job.preemptions = e.preemptions;
    if (!e.avoid.empty()) job.avoid.insert(e.avoid);
    job.due = due_at(job) <= job.past.back().ended_at;
}
void on(State& s, const JobBeginChanged& e) {
    Job& job = at(s.jobs, e.job);
    job.spec.begin = e.begin;
    job.not_before = std::min(job.not_before, e.begin);
    if (job.phase == JobPhase::Queued) job.due = due_at(job) <= e.at;
}
void on(State& s, const JobDue& e) {
    Job& job = at(s.jobs, e.job);
    ROLL_CHECK(job.phase == JobPhase::Queued && !job.due);
    job.due = true;
}
void on(State& s, const JobEnded& e) {
    Job& job = at(s.jobs, e.job);
    ROLL_CHECK(!job.attempt && !is_over(job.phase) && is_over(e.phase));
    --use_of(s, job).jobs;
    job.phase = e.phase;
    job.exit_code = e.exit_code;
    job.reason = e.reason;
    job.ended_at = e.at;
}
void on(State& s, const AttemptPlaced& e) {
    Job& job = at(s.jobs, e.attempt.job);
    ROLL_CHECK(job.phase == JobPhase::Queued);
    ROLL_CHECK(e.attempt.token.attempt == job.attempts + 1);
    job.attempts = e.attempt.token.attempt;
    job.phase = JobPhase::Running;
    Attempt attempt{.token = e.attempt.token, .places = e.places};
    attempt.variant = e.variant;
    attempt.placed_at = e.at;
    for (Place& place : attempt.places) {
        attempt.nodes.push_back(at(s.workers, place.worker).node);
        place.up = place.ended = place.spare;
    }
    job.attempt = std::move(attempt);
    file_places(s, e.attempt.job);
    change(use_of(s, job), job.resources(), 1, e.at, s.policy.half_life);
}
void on(State& s, const AttemptStarted& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    if (attempt.phase == AttemptPhase::Starting) attempt.phase = AttemptPhase::Running;
    attempt.started_at = e.at;
}
void on(State& s, const AttemptStopping& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    attempt.phase = AttemptPhase::Stopping;
    if (attempt.reason.empty()) attempt.reason = e.reason;
    attempt.preempted = e.preempted;
}
void on(State& s, const MemberEnded& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    const auto place = std::ranges::find(attempt.places, e.worker, &Place::worker);
    ROLL_CHECK(place != attempt.places.end() && !place->ended);
    place->ended = true;
    attempt.matched.insert(e.matched.begin(), e.matched.end());
    const int known = blame(attempt.outcome.value_or(Outcome::Done), attempt.exit_code);
    const int now = blame(e.outcome, e.exit_code);
    if (now <= known) return;
    attempt.outcome = e.outcome;
    attempt.blamed = attempt.nodes[static_cast<std::size_t>(place - attempt.places.begin())];
    attempt.exit_code = e.exit_code;
    const bool says_more = now > blame(Outcome::Stopped, 0) || attempt.reason.empty();
    if (says_more && !e.reason.empty()) attempt.reason = e.reason;
}
void on(State& s, const MemberUp& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    const auto place = std::ranges::find(attempt.places, e.worker, &Place::worker);
    ROLL_CHECK(place != attempt.places.end() && !place->up && !place->ended);
    place->up = true;
}
void on(State&, const AttemptFenced&) {}  // stored in the ledger only; State does not change
void on(State& s, const AttemptEnded& e) {
    Job& job = current(s, e.attempt);
    EndedAttempt ended{.token = e.attempt.token, .placed_at = job.attempt->placed_at};
    ended.started_at = job.attempt->started_at;
    ended.ended_at = e.at;
    ended.outcome = e.outcome;
    ended.exit_code = e.exit_code;
    ended.reason = e.reason;
    ended.nodes = job.attempt->nodes;
    ended.blamed = job.attempt->blamed;
    job.labels.merge(labels_of(job, e.outcome));
    if (e.outcome == Outcome::Infra) note_fault(s, e.attempt.job, e.at);
    for (const Place& place : job.attempt->places) note_used(s, place.worker, e.at);
    job.stalled = stalled_after(job, e.outcome);
    if (!job.checkpoints.empty())
        job.best_step = std::max(job.best_step, job.checkpoints.back().step);
    Use& use = use_of(s, job);
    change(use, job.resources(), -1, e.at, s.policy.half_life);
    use.gpu_ms += gpu_ms(job.resources(), std::max(e.at - ended.placed_at, Time::duration(0)));
    job.past.push_back(std::move(ended));
    unfile_places(s, e.attempt.job);
    job.attempt.reset();
}
void on(State& s, const CheckpointAsked& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    ROLL_CHECK(e.number == attempt.asked + 1);
    attempt.asked = e.number;
}
void on(State& s, const CheckpointRecorded& e) {
    Job& job = current(s, e.attempt);
    ROLL_CHECK(e.asked <= job.attempt->asked);
    job.attempt->saved = std::max(job.attempt->saved, e.asked);
    std::erase_if(job.checkpoints, [&](const Checkpoint& c) {
        ROLL_CHECK(c.step < e.step || c.token < e.attempt.token);
        return c.step >= e.step;
    });
    if (e.save_ms > 0) {
        if (job.save_ms.size() >= kSavesKept) job.save_ms.erase(job.save_ms.begin());
        job.save_ms.push_back(e.save_ms);
    }
    job.checkpoints.push_back({e.step, e.attempt.token, e.directory, e.asked});
}
void on(State& s, const CheckpointPruned& e) {
    std::erase_if(at(s.jobs, e.job).checkpoints,
                  [&](const Checkpoint& c) { return c.step == e.step && c.token == e.token; });
}
void on(State& s, const ExportRecorded& e) { current(s, e.attempt).exported = e.directory; }
void on(State& s, const WorkerJoined& e) {
    ROLL_CHECK(e.worker.value >= s.next_worker);
    s.next_worker = e.worker.value + 1;
    s.workers[e.worker] = Worker{
        .node = e.node, .session = e.session, .slots = e.slots, .gpus = e.gpus, .joined_at = e.at};
    s.workers[e.worker].segment = e.segment;
    s.workers[e.worker].gpu_numa = e.gpu_numa;
    s.index.by_session[e.session] = e.worker;
    if (e.generation > 0) s.generations[e.node] = e.generation;
    auto& sessions = s.sessions[e.node];
    if (sessions.empty() || sessions.back() != e.session) sessions.push_back(e.session);
}
void on(State& s, const MachineExcluded& e) {
    Machine& machine = s.machines[e.machine];
    machine.excluded_until = e.until;
    machine.reason = e.reason;
}
// Forgets the machine's faults. Keeps those with a common cause, because they are needed to
// recognize that cause in later faults of other machines.
void on(State& s, const MachineForgiven& e) {
    const auto found = s.machines.find(e.machine);
    if (found == s.machines.end()) return;
    Machine machine;
    for (const Fault& fault : found->second.faults)
        if (fault.common && !fault.certain) machine.faults.push_back(fault);
    if (machine.faults.empty())
        s.machines.erase(found);
    else
        found->second = std::move(machine);
}
void on(State& s, const DispatchStopped& e) {
    s.stopped = e.stopped ? std::optional(e.why) : std::nullopt;
}
void on(State& s, const WorkerDrained& e) { at(s.workers, e.worker).draining = e.draining; }
void on(State& s, const WorkerQuiet& e) { at(s.workers, e.worker).quiet = e.quiet; }
void on(State& s, const WorkerLost& e) {
    note_loss(s, e.worker, e.at);
    s.index.by_session.erase(at(s.workers, e.worker).session);
    s.workers.erase(e.worker);
}

// Returns the job that the event changes; 0 if none.
template <class E>
JobId job_of(const E& e) {
    if constexpr (requires { e.parent; }) {
        return e.parent;
    } else if constexpr (requires { e.job; }) {
        return e.job;
    } else if constexpr (requires { e.attempt; }) {
        return e.attempt.job;
    } else {
        return {};
    }
}

}  // namespace

void apply(State& state, const Event& event) {
    const auto applied = [&](const auto& e) {
        const JobId id = job_of(e);
        if (state.jobs.contains(id)) unfile(state, id);
        on(state, e);
        if (state.jobs.contains(id)) file(state, id);
    };
    std::visit(applied, event);
}

}  // namespace roll::core
