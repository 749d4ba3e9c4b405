#include <algorithm>

#include "common/check.hpp"
#include "common/counted.hpp"
#include "daemon/core/facts/exit_policy.hpp"
#include "daemon/core/placement/spares.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Why an attempt ended, for the counting of retries. Each class has its own number of retries.
enum class Class { Infra, App, Timeout, Preempted, Yielded, Final };

// Returns the time of the next retry after failure number `failures` of one class.
Time after_backoff(Time now, const spec::Retry& retry, int failures) {
    ROLL_CHECK(failures > 0);
    auto wait = retry.backoff;
    for (int i = 1; i < failures && wait < retry.backoff_max; ++i) wait *= 2;
    return now + std::min(wait, std::max(retry.backoff, retry.backoff_max));
}

// Returns the node that the job must avoid from now on; empty if there is none. The job must avoid
// the blamed node in three cases: a rule of on_exit or on_log says so, or this is the job's second
// infra failure on the node, or a check of the node failed.
std::string node_to_avoid(const Job& job, Outcome outcome) {
    const std::string& node = job.attempt->blamed;
    if (exit_policy_of(job, outcome) == spec::OnExit::AvoidNode) return node;
    if (outcome != Outcome::Infra || node.empty()) return {};
    const bool again = std::ranges::any_of(job.past, [&](const EndedAttempt& past) {
        return past.outcome == Outcome::Infra && past.blamed == node;
    });
    const int code = job.attempt->exit_code;
    return again || code == kExitUnfit || code == kExitUnhealthy ? node : "";
}

// Returns whether the job ended because its output could not be written: disk full, quota,
// read-only volume, no permission. A retry would fail, too. Returns false for a command, whose exit
// code may equal kExitRefused by chance.
bool is_output_refused(const Job& job) {
    return job.attempt->exit_code == kExitRefused && job.spec.kind != spec::JobKind::Command;
}

Class class_of(const Job& job, Outcome outcome, Time now) {
    const bool stopped = outcome == Outcome::Stopped || outcome == Outcome::Yielded;
    if (stopped && job.attempt->preempted) return Class::Preempted;
    if (stopped && time_is_up(job, now) == kTimeIsUp) return Class::Timeout;
    if (stopped && !time_is_up(job, now).empty()) return Class::Final;
    const auto policy = exit_policy_of(job, outcome);
    if (policy) return policy == spec::OnExit::Stop ? Class::Final : Class::Infra;
    switch (outcome) {
        case Outcome::Yielded: return Class::Yielded;
        case Outcome::Stopped:  // the attempt was replaced by another one, or the worker was lost
        case Outcome::Infra: return Class::Infra;
        case Outcome::App: return is_output_refused(job) ? Class::Final : Class::App;
        case Outcome::Done:
        case Outcome::Invalid: return Class::Final;
    }
    return Class::Final;
}

// Increments the counter of class `what` in `tries`. After a failure, also sets the time of the
// next retry. Returns true if the class has a retry left.
bool count(Class what, const spec::Retry& retry, JobRequeued& tries, Time now) {
    switch (what) {
        case Class::Infra:
            tries.not_before = after_backoff(now, retry, ++tries.infra_failures);
            return tries.infra_failures <= retry.infra;
        case Class::App:
            tries.not_before = after_backoff(now, retry, ++tries.app_failures);
            return tries.app_failures <= retry.app;
        case Class::Timeout: return ++tries.timeouts <= retry.timeout;
        case Class::Preempted: return ++tries.preemptions <= retry.preempted;
        case Class::Yielded: return true;
        case Class::Final: return false;
    }
    return false;
}

// Returns a text such as "; retry.app: 3 is used up"; empty if the job has no retries of this
// class.
std::string spent(Class what, const spec::Retry& retry) {
    const auto of = [](const char* name, int budget) {
        return budget == 0
                   ? ""
                   : "; retry." + std::string(name) + ": " + std::to_string(budget) + " is used up";
    };
    switch (what) {
        case Class::Infra: return of("infra", retry.infra);
        case Class::App: return of("app", retry.app);
        case Class::Timeout: return of("timeout", retry.timeout);
        case Class::Preempted: return of("preempted", retry.preempted);
        case Class::Yielded:
        case Class::Final: return {};
    }
    return {};
}

std::string no_progress(const Job& job, Outcome outcome) {
    const int most = job.spec.retry.no_progress;
    if (most == 0 || stalled_after(job, outcome) < most) return {};
    const std::string step =
        std::to_string(job.checkpoints.empty() ? 0 : job.checkpoints.back().step);
    const std::string& last = job.attempt->reason;
    return "no checkpoint after step " + step + " in " + counted(most, "failed attempt") +
           (last.empty() ? "" : "; the last one failed with: " + last);
}

Event aftermath_of_failure(JobId id, const Job& job, Outcome outcome, Time now) {
    const Attempt& attempt = *job.attempt;
    const auto failed = [&](const std::string& reason) {
        return JobEnded{id, JobPhase::Failed, std::max(attempt.exit_code, 1), reason, now};
    };
    JobRequeued tries{id, now, job.infra_failures, job.app_failures, job.timeouts, job.preemptions};
    if (const std::string pattern = stopping_pattern(job, outcome); !pattern.empty())
        return failed(attempt.reason + "; the log contains: " + pattern);
    const Class what = class_of(job, outcome, now);
    const std::string late = time_is_up(job, now);
    const bool timed =
        what == Class::Timeout || outcome == Outcome::Yielded || outcome == Outcome::Stopped;
    if (!count(what, job.spec.retry, tries, now))
        return failed((timed && !late.empty() ? late : attempt.reason) +
                      spent(what, job.spec.retry));
    const std::string stalled = no_progress(job, outcome);
    if (!stalled.empty()) return failed(stalled);
    tries.avoid = node_to_avoid(job, outcome);
    return tries;
}

}  // namespace

Events settle_attempts(const State& state, Time now) {
    Events events;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        if (!std::ranges::all_of(job.attempt->places, &Place::ended)) continue;
        const Attempt& attempt = *job.attempt;
        const Outcome outcome = attempt.outcome.value_or(Outcome::Done);
        const AttemptKey key{id, attempt.token};
        events.push_back(AttemptEnded{key, outcome, attempt.exit_code, attempt.reason, now});
        if (outcome == Outcome::Done) {
            events.push_back(JobEnded{id, JobPhase::Done, 0, "", now});
        } else if (job.cancel_requested) {
            events.push_back(
                JobEnded{id, JobPhase::Cancelled, kExitCancelled, job.cancel_reason, now});
        } else {
            Event next = aftermath_of_failure(id, job, outcome, now);
            auto* again = std::get_if<JobRequeued>(&next);
            auto places =
                again ? places_with_spares(state, job, outcome, now) : std::vector<Place>{};
            if (!places.empty()) again->not_before = now;
            events.push_back(std::move(next));
            if (places.empty()) continue;
            events.push_back(AttemptPlaced{{id, {state.incarnation, job.attempts + 1}},
                                           std::move(places),
                                           now,
                                           job.attempt->variant});
        }
    }
    return events;
}

}  // namespace roll::core
