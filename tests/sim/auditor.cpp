#include "tests/sim/auditor.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::sim {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using core::JobPhase;
using core::Outcome;

void Auditor::observe(const core::Event& event, Time at) {
    now_ = at;
    std::visit([&](const auto& e) { on(e); }, event);
}

void Auditor::check(const core::State& state, Time now, bool calm) {
    check_placement(now);
    check_duties(state, now, calm);
    check_actions(state);
    check_allocations(now);
    ++turn_;
}

Auditor::Job& Auditor::job(JobId id) {
    const auto found = jobs_.find(id);
    ROLL_CHECK(found != jobs_.end());
    return found->second;
}
// Returns the run of a current attempt. Fails for a stale attempt, which no event may be about.
Auditor::Run& Auditor::run(const AttemptKey& key) {
    Job& owner = job(key.job);
    ROLL_CHECK(owner.run && owner.run->token == key.token);
    return *owner.run;
}
Auditor::Member& Auditor::member(const AttemptKey& key, WorkerId worker) {
    auto& members = run(key).members;
    const auto found = std::ranges::find_if(
        members, [&](const Member& member) { return member.place.worker == worker; });
    ROLL_CHECK(found != members.end());
    return *found;
}

template <class Is>
bool Auditor::has_member(const AttemptKey& key, const Is& is) const {
    const auto found = jobs_.find(key.job);
    if (found == jobs_.end() || !found->second.run || found->second.run->token != key.token)
        return false;
    return std::ranges::any_of(found->second.run->members,
                               [&](const Member& m) { return !m.ended && is(m); });
}
bool Auditor::is_current(const AttemptKey& key, WorkerId worker) const {
    return has_member(key, [&](const Member& m) { return m.place.worker == worker; });
}
bool Auditor::is_current(const AttemptKey& key, const std::string& node) const {
    return has_member(key, [&](const Member& m) { return m.node == node; });
}

void Auditor::on(const core::IncarnationRaised& e) {
    for (auto& [id, worker] : workers_) worker.quiet = true;
    ROLL_CHECK(e.incarnation > incarnation_);
    incarnation_ = e.incarnation;
}
void Auditor::on(const core::JobSubmitted& e) {
    ROLL_CHECK(jobs_.empty() || e.job > jobs_.rbegin()->first);
    const bool plain = e.spec.output.find('{') == std::string::npos;
    ROLL_CHECK((plain || !e.spec.cron.empty()) && e.spec.then.empty());
    if (e.cron != JobId{}) check_cron(e);
    if (e.spec.into) check_into(e);
    jobs_[e.job] = Job{
        .spec = e.spec, .user = e.user, .submitted = e.at, .held = e.spec.hold, .array = e.array};
    jobs_[e.job].was_due = due_at(jobs_[e.job]) <= now_;
    ROLL_CHECK(e.spec.array.has_value() == (e.array.value != 0));
    jobs_[e.job].spec.after = each_awaited(e.spec.after);
    if (!e.spec.array) return;
    // The tasks of an array have consecutive ids, and each index occurs once.
    const auto indices = spec::array_indices(e.spec.array->indices).value();
    ROLL_CHECK(indices.at(e.job.value - e.array.value) == e.spec.array->index);
}
// Checks a job that a cron job queued: the cron job's previous job has ended, the time has come,
// and the document is that of the cron job.
void Auditor::check_cron(const core::JobSubmitted& e) {
    Job& sender = job(e.cron);
    ROLL_CHECK(!sender.held && !sender.over && !sender.cancelled && due_at(sender) <= now_);
    ROLL_CHECK(!sender.sent || job(*sender.sent).over);
    ROLL_CHECK(e.spec.cron.empty() && e.spec.document == sender.spec.document);
    sender.sent = e.job;
}
void Auditor::on(const core::ExportQueued& e) {
    Job& parent = job(e.parent);
    ROLL_CHECK(parent.over == JobPhase::Done && !parent.spec.export_document.empty());
    ROLL_CHECK(!parent.export_job && job(e.job).spec.source_job == e.parent);
    parent.export_job = e.job;
}
void Auditor::on(const core::JobHeld& e) { job(e.job).held = e.held; }
void Auditor::on(const core::JobPriorityChanged& e) { job(e.job).spec.priority = e.priority; }
void Auditor::on(const core::JobCancelRequested& e) {
    ROLL_CHECK(!job(e.job).over && !job(e.job).cancelled);
    job(e.job).cancelled = e.at;
    job(e.job).halved = e.halved;
}

void Auditor::on(const core::JobDue& e) {
    const Job& j = job(e.job);
    ROLL_CHECK(!j.run && !j.over && due_at(j) <= now_);
    job(e.job).was_due = true;
}
void Auditor::on(const core::JobBeginChanged& e) {
    job(e.job).spec.begin = e.begin;
    job(e.job).not_before = std::min(job(e.job).not_before, e.begin);
    job(e.job).was_due = due_at(job(e.job)) <= now_;
}

// Checks a requeue. Each end of an attempt is followed by exactly one requeue or end of its job.
void Auditor::on(const core::JobRequeued& e) {
    Job& j = job(e.job);
    ROLL_CHECK(!j.run && !j.over && !j.cancelled && j.requeue_due);
    j.requeue_due = false;
    j.requeued = now_;
    if (!e.avoid.empty()) j.avoid.insert(e.avoid);
    const Outcome outcome = j.last_end.value().outcome;
    const spec::Retry& retry = j.spec.retry;
    ROLL_CHECK(outcome != Outcome::Done && outcome != Outcome::Invalid && !output_refused(j));
    ROLL_CHECK(j.infra <= retry.infra && j.app <= retry.app && j.timeouts <= retry.timeout);
    ROLL_CHECK(retry.no_progress == 0 || j.stalled < retry.no_progress);
    ROLL_CHECK(e.infra_failures == j.infra && e.app_failures == j.app);
    ROLL_CHECK(e.timeouts == j.timeouts && e.preemptions == j.preemptions);
    j.not_before = now_ + j.backoff;
    // Spares replace the node that failed at once, without a back-off.
    j.replacing = e.not_before != j.not_before;
    ROLL_CHECK(stopped_ || adopting_ || j.replacing || !spares_suffice(j));
    if (j.replacing) j.not_before = now_;
    ROLL_CHECK(e.not_before == j.not_before);
    j.was_due = due_at(j) <= now_;
}

void Auditor::on(const core::JobEnded& e) {
    Job& j = job(e.job);
    ROLL_CHECK(!j.run && !j.over);
    const bool just_ended = j.requeue_due;
    j.requeue_due = false;
    j.over = e.phase;
    j.ended = now_;
    if (j.spec.open) return check_open_end(e);
    if (e.phase == JobPhase::Done) {
        ROLL_CHECK(just_ended && j.last_end->outcome == Outcome::Done && e.exit_code == 0);
        return;
    }
    ROLL_CHECK(!e.reason.empty() && e.exit_code != 0);
    if (e.phase == JobPhase::Cancelled) {
        ROLL_CHECK(j.cancelled || hopeless(j) || too_late(j, now_));
        return;
    }
    ROLL_CHECK(e.phase == JobPhase::Failed && just_ended && !j.cancelled);
    const Outcome outcome = j.last_end->outcome;
    const bool stopped = outcome == Outcome::Yielded || outcome == Outcome::Stopped;
    const spec::Retry& retry = j.spec.retry;
    const bool final_code =
        meaning(j, outcome, j.last_end->exit_code, j.matched) == spec::OnExit::Stop;
    const bool stalled = retry.no_progress > 0 && j.stalled >= retry.no_progress;
    ROLL_CHECK(outcome == Outcome::Invalid || j.app > retry.app || j.infra > retry.infra ||
               final_code || output_refused(j) || stalled || (stopped && j.time_was_up));
}

void Auditor::on(const core::AttemptPlaced& e) {
    Job& j = job(e.attempt.job);
    ROLL_CHECK(!stopped_ && !adopting_ && due(j, now_) && !j.requeue_due);
    ROLL_CHECK(e.attempt.token.incarnation == incarnation_);
    ROLL_CHECK(e.attempt.token > j.last && e.attempt.token.attempt == j.last.attempt + 1);
    const spec::Resources& given = j.spec.shape(e.variant);
    check_places(e, given);
    j.last = e.attempt.token;
    j.placed = now_;
    j.placed_in = turn_;
    j.run = Run{.token = e.attempt.token, .given = given, .since = now_};
    const auto was_held = [&](const core::Place& p) { return j.last_held.contains(p.worker); };
    j.run->replaces = given.spares > 0 && j.requeued == now_ &&
                      j.last_end->outcome == Outcome::Infra &&
                      std::ranges::all_of(e.places, was_held);
    for (const core::Place& place : e.places) {
        j.run->members.push_back({place, workers_.at(place.worker).node});
        if (place.spare) j.run->members.back().up = true;
    }
    ROLL_CHECK(j.run->replaces || !j.replacing);
    j.replacing = false;
    const auto members = std::ssize(e.places);
    const bool whole = members == given.workers();
    ROLL_CHECK(whole || (j.run->replaces && members >= given.nodes));
    ROLL_CHECK(quotas_hold());
}

void Auditor::on(const core::MemberUp& e) {
    Member& m = member(e.attempt, e.worker);
    ROLL_CHECK(!m.up && !m.ended && workers_.contains(e.worker));
    m.up = true;
}
void Auditor::on(const core::AttemptStarted& e) {
    Run& r = run(e.attempt);
    ROLL_CHECK(!r.started);
    for (const Member& m : r.members) ROLL_CHECK(m.up || m.ended);
    r.started = true;
    r.since = now_;
}

// Checks that a stop has a cause: a user, the time, or a member that failed.
void Auditor::on(const core::AttemptStopping& e) {
    const Run& r = run(e.attempt);
    const Job& j = job(e.attempt.job);
    const bool broken =
        std::ranges::any_of(r.ends, [](const auto& end) { return end.outcome != Outcome::Done; });
    const bool moves = std::ranges::any_of(r.members, [&](const Member& m) {
        const auto worker = workers_.find(m.place.worker);
        return worker != workers_.end() && goes_back(worker->second);
    });
    ROLL_CHECK(late(j, r, now_) || broken || j.cancelled || moves || e.preempted);
    if (e.preempted) check_preemption(e);
    // The reason of the stop remains, although the clock may be set back before the attempt ends.
    const bool by_limit = e.reason == "reached its time limit";
    ROLL_CHECK(!by_limit || limit_is_over(j, r, now_));
    run(e.attempt).limit_at_stop = by_limit;
    run(e.attempt).deadline_at_stop = e.reason == "reached its deadline";
    run(e.attempt).stopping = true;
    run(e.attempt).preempted = e.preempted;
}
void Auditor::on(const core::MemberEnded& e) {
    Member& m = member(e.attempt, e.worker);
    ROLL_CHECK(!m.ended);
    m.ended = e;
    Run& r = run(e.attempt);
    r.ends.push_back(e);
    // The member that saves has ended, so no save is expected any more.
    if (&m == &r.members.front()) r.asked_at.reset();
}

// Checks which member decides the attempt's outcome: the first that failed by itself, else one that
// lost a peer, else one that was stopped.
void Auditor::check_judgement(const core::AttemptEnded& e, const Run& r) const {
    const auto rank = [](const core::MemberEnded& end) {
        if (end.outcome == Outcome::Done) return 0;
        if (end.outcome == Outcome::Stopped || end.outcome == Outcome::Yielded) return 1;
        return end.outcome == Outcome::Infra && end.exit_code == 76 ? 2 : 3;
    };
    const core::MemberEnded* worst = &r.ends.front();
    for (const core::MemberEnded& end : r.ends) {
        if (rank(end) > rank(*worst)) worst = &end;
    }
    ROLL_CHECK(e.outcome == worst->outcome && e.exit_code == worst->exit_code);
}

std::optional<spec::OnExit> Auditor::meaning(const Job& j, Outcome outcome, int exit_code,
                                             const std::set<int>& matched) {
    if (outcome != Outcome::App && outcome != Outcome::Infra) return std::nullopt;
    std::set<spec::OnExit> all;
    const auto code = j.spec.retry.on_exit.find(exit_code);
    if (outcome == Outcome::App && code != j.spec.retry.on_exit.end())
        all.insert(code->second.then.value());
    for (std::size_t i = 0; i < j.spec.retry.on_log.size(); ++i) {
        const auto then = j.spec.retry.on_log[i].meaning.then;
        if (matched.contains(static_cast<int>(i)) && then) all.insert(*then);
    }
    for (const auto what : {spec::OnExit::Stop, spec::OnExit::AvoidNode, spec::OnExit::Retry})
        if (all.contains(what)) return what;
    return std::nullopt;
}

void Auditor::on(const core::AttemptEnded& e) {
    Run& r = run(e.attempt);
    for (const Member& m : r.members) ROLL_CHECK(m.ended.has_value() != m.place.spare);
    check_judgement(e, r);
    Job& j = job(e.attempt.job);
    j.time_was_up = late(j, r, now_);
    note_used(r);
    j.matched.clear();
    for (const core::MemberEnded& end : r.ends)
        j.matched.insert(end.matched.begin(), end.matched.end());
    j.used.push_back(sum_of(r.ends));
    j.last_held.clear();
    for (const Member& m : r.members) j.last_held.insert(m.place.worker);
    j.last_given = r.given;
    note_faults(r, e.attempt.job);
    count_end(j, e);
    Time::duration held = now_ - j.placed;
    if (r.given.time.count() > 0) held = std::min(held, Time::duration(r.given.time));
    j.gpu_ms += r.given.gpu_hundredths() * held.count() / 100;
    j.last_end = e;
    j.requeue_due = true;
    j.run.reset();
}

// Counts the end of an attempt in the class of its outcome, and computes the back-off.
void Auditor::count_end(Job& j, const core::AttemptEnded& e) {
    const bool progress = j.newest > j.best;
    const bool trains = j.spec.kind == spec::JobKind::Train;
    const bool bad = e.outcome == Outcome::Infra || e.outcome == Outcome::App;
    j.stalled = !trains || progress ? 0 : j.stalled + bad;
    j.best = std::max(j.best, j.newest);
    j.backoff = 0s;
    const bool stopped = e.outcome == Outcome::Stopped || e.outcome == Outcome::Yielded;
    const bool by_limit = limit_is_over(j, *j.run, now_);
    if (stopped && j.run->preempted) {
        ++j.preemptions;
    } else if (stopped && by_limit) {
        ++j.timeouts;
    } else if (e.outcome == Outcome::Infra || e.outcome == Outcome::App ||
               (e.outcome == Outcome::Stopped && !j.time_was_up)) {
        const auto what = meaning(j, e.outcome, e.exit_code, j.matched);
        if (what == spec::OnExit::Stop) return;
        int& failures = e.outcome == Outcome::App && !what ? j.app : j.infra;
        j.backoff = j.spec.retry.backoff * (1 << std::min(failures++, 20));
        j.backoff = std::min(j.backoff, Time::duration(j.spec.retry.backoff_max));
    }
}

void Auditor::on(const core::CheckpointAsked& e) {
    Run& r = run(e.attempt);
    ROLL_CHECK(!r.stopping && e.number == r.asked + 1);
    for (const Member& m : r.members) ROLL_CHECK(!m.ended);
    ROLL_CHECK(job(e.attempt.job).spec.kind == spec::JobKind::Train);
    r.asked = e.number;
    if (!r.asked_at) r.asked_at = now_;
}
// Checks a recorded checkpoint: a program has written it, and its request exists. check() limits
// how long a request may wait.
void Auditor::on(const core::CheckpointRecorded& e) {
    Run& r = run(e.attempt);
    ROLL_CHECK(e.asked <= r.asked);
    if (e.asked > 0 && e.asked == r.asked) r.asked_at.reset();
    job(e.attempt.job).newest = e.step;
    r.recorded = e.step;
    auto& saves = job(e.attempt.job).save_ms;
    if (e.save_ms > 0) saves.push_back(e.save_ms);
    if (saves.size() > 200) saves.erase(saves.begin());
    ROLL_CHECK(written_.contains({e.attempt.job, e.step, e.attempt.token}));
}
void Auditor::on(const core::CheckpointPruned& e) {
    ROLL_CHECK(deleted_.contains({e.job, e.step, e.token}));
}
void Auditor::on(const core::ExportRecorded& e) {
    run(e.attempt);
    ROLL_CHECK((job(e.attempt.job).spec.kind == spec::JobKind::Convert) == (e.step == 0));
}
void Auditor::on(const core::WorkerJoined& e) {
    ROLL_CHECK(
        workers_.emplace(e.worker, Worker{e.node, e.slots, e.gpus, e.memory, e.cpus}).second);
    workers_.at(e.worker).segment = e.segment;
    // A roll-worker never joins again once its successor has joined.
    auto& sessions = sessions_[e.node];
    if (!sessions.empty() && sessions.back() == e.session) return;
    ROLL_CHECK(std::ranges::find(sessions, e.session) == sessions.end());
    sessions.push_back(e.session);
}
void Auditor::on(const core::WorkerDrained& e) { workers_.at(e.worker).draining = e.draining; }
bool Auditor::late(const Job& j, const Run& run, Time now) {
    return limit_is_over(j, run, now) || run.deadline_at_stop ||
           (j.spec.deadline && *j.spec.deadline < now);
}
// Returns how long the job's slowest save takes, plus a minute; 0 if no save is known.
Time::duration Auditor::slow_save(const Job& j) {
    if (j.save_ms.empty()) return {};
    std::vector<std::int64_t> saves = j.save_ms;
    std::ranges::sort(saves);
    const std::size_t rank = (saves.size() * 99 + 99) / 100;
    return std::chrono::milliseconds(saves.at(rank - 1)) + 60s;
}

// Returns whether the attempt has reached its time limit minus the time that a save needs, which is
// at most a quarter of the limit.
bool Auditor::limit_is_over(const Job& j, const Run& run, Time now) {
    const Time::duration limit = run.given.time;
    if (limit.count() == 0) return false;
    return run.limit_at_stop || run.since + limit - std::min(slow_save(j), limit / 4) <= now;
}
bool Auditor::too_late(const Job& j, Time now) {
    return j.spec.deadline && now + j.spec.shortest_time() > *j.spec.deadline;
}

bool Auditor::array_is_full(const Job& j) const {
    if (!j.spec.array || j.spec.array->limit == 0) return false;
    const auto runs = [&](const auto& item) {
        return item.second.run && item.second.array == j.array;
    };
    const auto running = std::ranges::count_if(jobs_, runs);
    ROLL_CHECK(running <= j.spec.array->limit);
    return running == j.spec.array->limit;
}

// Returns whether the job's export has succeeded. True if the job has none.
bool Auditor::exported(JobId id) const {
    const Job& j = jobs_.at(id);
    if (j.spec.export_document.empty()) return true;
    return j.export_job && jobs_.at(*j.export_job).over == JobPhase::Done;
}

bool Auditor::allowed(const Job& j) const {
    if (j.run || j.over || j.held || j.cancelled) return false;
    if (!j.spec.cron.empty() || j.spec.open) return false;
    return std::ranges::all_of(j.spec.after, [&](const spec::After& after) {
        const auto over = jobs_.at(after.job).over;
        if (!over) return false;
        if (after.condition == spec::After::Condition::Any || is_halved_trial(after)) return true;
        if (after.condition == spec::After::Condition::Exported && !exported(after.job))
            return false;
        return (*over == JobPhase::Done) != (after.condition == spec::After::Condition::Failed);
    });
}

bool Auditor::hopeless(const Job& j) const {
    return std::ranges::any_of(j.spec.after, [&](const spec::After& after) {
        const auto over = jobs_.at(after.job).over;
        if (!over || after.condition == spec::After::Condition::Any || is_halved_trial(after))
            return false;
        const bool ok = *over == JobPhase::Done;
        if (after.condition == spec::After::Condition::Exported && ok) {
            const auto exporting = jobs_.at(after.job).export_job;
            const auto end = exporting ? jobs_.at(*exporting).over : std::nullopt;
            return end && *end != JobPhase::Done;
        }
        return ok == (after.condition == spec::After::Condition::Failed);
    });
}

void Auditor::check_duties(const core::State& state, Time now, bool calm) const {
    for (const auto& [id, j] : jobs_) {
        const core::Job& real = state.jobs.at(id);
        ROLL_CHECK(!j.requeue_due && !(j.replacing && !j.run));
        ROLL_CHECK(j.over ? real.phase == *j.over : !core::is_over(real.phase));
        if (j.spec.open) check_open(id, j);
        if (!j.over && !j.run) ROLL_CHECK(!j.cancelled && !hopeless(j) && !too_late(j, now));
        if (j.over == JobPhase::Done)
            ROLL_CHECK(j.export_job.has_value() == !j.spec.export_document.empty());
        if (calm && j.cancelled && !j.over) ROLL_CHECK(now - *j.cancelled < 120s);
        if (!j.run) continue;
        if (calm && j.run->started && !j.run->stopping) check_requests(*j.run);
        const bool broken = std::ranges::any_of(
            j.run->ends, [](const auto& end) { return end.outcome != Outcome::Done; });
        const bool stopping = real.attempt->phase == core::AttemptPhase::Stopping;
        ROLL_CHECK(stopping || !(late(j, *j.run, now) || broken || j.cancelled));
    }
}

// Checks that each member that has not ended gets exactly one action, and that there are no other
// actions.
void Auditor::check_actions(const core::State& state) const {
    std::vector<core::Action> expected;
    for (const auto& [id, j] : jobs_) {
        if (!j.run) continue;
        const AttemptKey key{id, j.run->token};
        const bool stops = state.jobs.at(id).attempt->phase == core::AttemptPhase::Stopping;
        for (const Member& m : j.run->members) {
            if (m.ended || m.place.spare) continue;
            ROLL_CHECK(workers_.contains(m.place.worker));
            if (stops) {
                expected.push_back(core::StopMember{m.place.worker, key});
            } else if (m.up || adopting_) {
                expected.push_back(core::KeepMember{m.place.worker, key});
            } else {
                expected.push_back(core::StartMember{m.place.worker, key});
            }
        }
    }
    auto owed = core::actions(state);
    std::ranges::sort(owed);
    std::ranges::sort(expected);
    ROLL_CHECK(owed == expected);
}

}  // namespace roll::sim
