#include <algorithm>
#include <iterator>

#include "daemon/core/apply/find.hpp"
#include "daemon/core/apply/on.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::core {

void on(State& s, const JobSubmitted& e) {
    ROLL_CHECK(e.job.value >= s.next_job);
    s.next_job = e.job.value + 1;
    const auto added = s.jobs.try_emplace(e.job).first;
    Job& job = added->second;
    job.spec = e.spec;
    // Share the text with the previous job to save memory. Consecutive jobs, above all the jobs of
    // an array, often have similar documents.
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
    if (!e.key.empty()) ROLL_CHECK(s.keys[e.user].emplace(e.key, e.job).second);
}
void on(State& s, const ExportQueued& e) {
    Job& parent = at(s.jobs, e.parent);
    ROLL_CHECK(parent.phase == JobPhase::Done && !parent.export_job);
    ROLL_CHECK(at(s.jobs, e.job).spec.source_job == e.parent);
    parent.export_job = e.job;
}
void on(State& s, const JobHeld& e) { open_at(s, e.job).held = e.held; }
void on(State& s, const JobClosed& e) {
    Job& group = open_at(s, e.job);
    ROLL_CHECK(group.spec.open && !group.closed);
    group.closed = true;
}
void on(State& s, const JobPriorityChanged& e) { open_at(s, e.job).spec.priority = e.priority; }
void on(State& s, const JobCancelRequested& e) {
    Job& job = open_at(s, e.job);
    ROLL_CHECK(!job.cancel_requested);
    job.cancel_requested = true;
    job.cancel_reason = e.reason;
    job.halved = e.halved;
}
void on(State& s, const JobRequeued& e) {
    Job& job = at(s.jobs, e.job);
    ROLL_CHECK(job.phase == JobPhase::Running && !job.attempt && !job.cancel_requested);
    const int more = e.infra_failures + e.app_failures + e.timeouts + e.preemptions -
                     (job.infra_failures + job.app_failures + job.timeouts + job.preemptions);
    ROLL_CHECK(more == 0 || more == 1);
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
    Job& job = open_at(s, e.job);
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
    Use& use = use_of(s, job);
    ROLL_CHECK(use.jobs > 0);
    --use.jobs;
    job.phase = e.phase;
    job.exit_code = e.exit_code;
    job.reason = e.reason;
    job.ended_at = e.at;
}

}  // namespace roll::core
