#include <algorithm>

#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

constexpr int kExitCancelled = 130;
constexpr auto kBackoffFirst = std::chrono::seconds(1);
constexpr int kBackoffDoublingsMax = 8;  // about four minutes

Time after_backoff(Time now, int failures) {
    return now + kBackoffFirst * (1 << std::min(failures - 1, kBackoffDoublingsMax));
}

JobEnded failed(JobId id, const Attempt& attempt, const std::string& reason, Time now) {
    return {id, JobPhase::Failed, std::max(attempt.exit_code, 1), reason, now};
}

Event aftermath_of_failure(JobId id, const Job& job, Outcome outcome, Time now) {
    const Attempt& attempt = *job.attempt;
    const std::string late = time_is_up(job, now);
    int infra = job.infra_failures;
    int app = job.app_failures;
    switch (outcome) {
        case Outcome::Yielded:
            if (!late.empty()) return failed(id, attempt, late, now);
            return JobRequeued{id, now, infra, app};
        case Outcome::Stopped:  // by us at its time limit; else by what took its place in the world
            if (!late.empty()) return failed(id, attempt, late, now);
            [[fallthrough]];
        case Outcome::Infra:
            if (++infra > job.spec.retry.infra) return failed(id, attempt, attempt.reason, now);
            return JobRequeued{id, after_backoff(now, infra), infra, app};
        case Outcome::App:
            if (++app > job.spec.retry.app) return failed(id, attempt, attempt.reason, now);
            return JobRequeued{id, after_backoff(now, app), infra, app};
        case Outcome::Done:
        case Outcome::Invalid: return failed(id, attempt, attempt.reason, now);
    }
    return failed(id, attempt, attempt.reason, now);
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
            events.push_back(aftermath_of_failure(id, job, outcome, now));
        }
    }
    return events;
}

}  // namespace roll::core
