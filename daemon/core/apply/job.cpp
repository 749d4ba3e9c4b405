#include "daemon/core/apply/job.hpp"

#include <algorithm>
#include <iterator>

#include "daemon/core/apply/find.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::core {

void on(State& s, const JobSubmitted& e) {
    ROLL_CHECK(e.job.value >= s.next_job);
    s.next_job = e.job.value + 1;
    const auto added = s.jobs.try_emplace(e.job).first;
    Job& job = added->second;
    job.spec = e.spec;
    // Consecutive jobs often have similar documents, especially in an array.
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

}  // namespace roll::core
