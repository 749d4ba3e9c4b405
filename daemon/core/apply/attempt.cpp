#include <algorithm>

#include "daemon/core/apply/faults.hpp"
#include "daemon/core/apply/find.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/apply/on.hpp"
#include "daemon/core/facts/exit_policy.hpp"
#include "daemon/core/facts/save_margin.hpp"

namespace roll::core {
namespace {

// Returns how well a member's outcome explains the failure of its attempt; higher is better. A
// member that failed by itself scores higher than a member that rolld stopped or that lost a peer.
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

// Adds a member's usage to `sum`, the usage of the earlier members.
void add_usage(Usage& sum, const Usage& usage) {
    sum.cpu_ms += usage.cpu_ms;
    sum.memory_peak = std::max(sum.memory_peak, usage.memory_peak);
    sum.wall_ms = std::max(sum.wall_ms, usage.wall_ms);
    sum.gpu_ms += usage.gpu_ms;
    sum.disk_read += usage.disk_read;
    sum.disk_written += usage.disk_written;
}

}  // namespace

void on(State& s, const AttemptPlaced& e) {
    Job& job = at(s.jobs, e.attempt.job);
    ROLL_CHECK(job.phase == JobPhase::Queued);
    ROLL_CHECK(e.attempt.token.attempt == job.attempts + 1);
    ROLL_CHECK(e.attempt.token.incarnation == s.incarnation);
    ROLL_CHECK(e.variant >= 0 && e.variant < job.spec.shapes());
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
    ROLL_CHECK(!attempt.started_at);
    ROLL_CHECK(std::ranges::all_of(attempt.places, [](const Place& p) { return p.up || p.ended; }));
    if (attempt.phase == AttemptPhase::Starting) attempt.phase = AttemptPhase::Running;
    attempt.started_at = e.at;
}
void on(State& s, const AttemptStopping& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    ROLL_CHECK(attempt.phase != AttemptPhase::Stopping);
    attempt.phase = AttemptPhase::Stopping;
    if (attempt.reason.empty() || !attempt.outcome) attempt.reason = e.reason;
    attempt.preempted = e.preempted;
}
void on(State& s, const MemberEnded& e) {
    Attempt& attempt = *current(s, e.attempt).attempt;
    const auto place = std::ranges::find(attempt.places, e.worker, &Place::worker);
    ROLL_CHECK(place != attempt.places.end() && !place->ended);
    place->ended = true;
    add_usage(attempt.usage, e.usage);
    attempt.matched.insert(e.matched.begin(), e.matched.end());
    const int known = blame(attempt.outcome.value_or(Outcome::Done), attempt.exit_code);
    const int now = blame(e.outcome, e.exit_code);
    // A member that is done may give a reason, for example the number of skipped steps. Keep this
    // reason only while no other reason is known, because it does not explain why another member
    // stopped or failed.
    if (e.outcome == Outcome::Done && attempt.reason.empty()) attempt.reason = e.reason;
    if (now <= known) return;
    if (!attempt.outcome && attempt.phase != AttemptPhase::Stopping) attempt.reason.clear();
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
    ROLL_CHECK(std::ranges::all_of(job.attempt->places, &Place::ended));
    EndedAttempt ended{.token = e.attempt.token, .placed_at = job.attempt->placed_at};
    ended.started_at = job.attempt->started_at;
    ended.ended_at = e.at;
    ended.outcome = e.outcome;
    ended.exit_code = e.exit_code;
    ended.reason = e.reason;
    ended.nodes = job.attempt->nodes;
    ended.blamed = job.attempt->blamed;
    ended.usage = job.attempt->usage;
    ended.checkpoint_at = job.attempt->checkpoint_at;
    ended.requests = std::move(job.attempt->requests);
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
void on(State& s, const TrainingAsked& e) {
    auto& requests = current(s, e.attempt).attempt->requests;
    ROLL_CHECK(e.request.number == next_number(requests));
    // Make room by erasing the oldest answered request. An answered request exists, because
    // decide() allows fewer than kRequestsKept unanswered requests.
    if (requests.size() >= kRequestsKept) {
        const auto oldest = std::ranges::find_if(
            requests, [](const MadeRequest& made) { return made.answer.has_value(); });
        ROLL_CHECK(oldest != requests.end());
        requests.erase(oldest);
    }
    requests.push_back({e.request, e.by, std::nullopt});
}
void on(State& s, const TrainingAnswered& e) {
    Job& job = current(s, e.attempt);
    const auto made = std::ranges::find_if(job.attempt->requests, [&](const MadeRequest& one) {
        return one.request.number == e.answer.number;
    });
    ROLL_CHECK(made != job.attempt->requests.end() && !made->answer);
    made->answer = e.answer;
    if (e.answer.stop_step > 0) job.stop_step = e.answer.stop_step;
}
void on(State& s, const CheckpointRecorded& e) {
    Job& job = current(s, e.attempt);
    ROLL_CHECK(e.asked <= job.attempt->asked);
    job.attempt->saved = std::max(job.attempt->saved, e.asked);
    job.attempt->checkpoint_at = e.at;
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
    const auto pruned = std::erase_if(at(s.jobs, e.job).checkpoints, [&](const Checkpoint& c) {
        return c.step == e.step && c.token == e.token;
    });
    ROLL_CHECK(pruned == 1);
}
void on(State& s, const ExportRecorded& e) {
    Job& job = current(s, e.attempt);
    if (e.step == 0) {
        job.exported = e.directory;
        return;
    }
    ROLL_CHECK(job.exports.empty() || job.exports.back().step < e.step);
    std::erase_if(job.exports, [&](const CheckpointExport& one) { return one.step < e.oldest; });
    job.exports.push_back({e.step, e.directory});
}

}  // namespace roll::core
