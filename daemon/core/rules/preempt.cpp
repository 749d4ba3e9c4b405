#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/placement/avoided.hpp"
#include "daemon/core/placement/capacity.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Maximum number of attempts that are tried as victims. This maximum bounds the time of a turn.
constexpr std::size_t kVictimsMax = 256;

// Returns the first job that is blocked only by missing capacity, or by other accounts that borrow
// its quota.
std::optional<JobId> first_waiting(const State& state, Time now, const Limits& limits) {
    if (state.adopting || state.stopped) return std::nullopt;
    const Capacity all = all_capacity(state, now);
    Queue queue(state, now, limits);
    while (const auto id = queue.next()) {
        const Job& job = state.jobs.at(*id);
        // A job that is blocked by its array's limit must not preempt another job.
        const auto excess = limits.excess(job, job.spec.resources);
        if (excess && excess->rule == "array") {
            queue.drop();
            continue;
        }
        const auto shapes = limits.owns(job) ? std::vector{0} : allowed_variants(job, limits, now);
        const auto holds = [&](int i) { return !find_places(job.spec.shape(i), all).empty(); };
        if (std::ranges::any_of(shapes, holds)) return id;
        queue.drop();
    }
    return std::nullopt;
}

// Returns the jobs whose attempts may be stopped for `first`. The job with the lowest priority
// comes first. If priorities are equal, the job whose attempt started last comes first.
std::vector<JobId> victims_for(const State& state, const Job& first, Time now,
                               const Limits& limits) {
    const bool reclaims = limits.owns(first);
    std::vector<JobId> victims;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        const Attempt& attempt = *job.attempt;
        if (attempt.phase != AttemptPhase::Running) continue;
        const bool lower = job.spec.priority < first.spec.priority;
        if (!lower && !(reclaims && limits.borrows(job))) continue;
        ROLL_CHECK(attempt.started_at);
        if (*attempt.started_at + state.policy.min_run <= now) victims.push_back(id);
    }
    std::ranges::sort(victims, [&](JobId a, JobId b) {
        const Job& one = state.jobs.at(a);
        const Job& other = state.jobs.at(b);
        return std::tuple(one.spec.priority, *other.attempt->started_at, a) <
               std::tuple(other.spec.priority, *one.attempt->started_at, b);
    });
    if (victims.size() > kVictimsMax) victims.resize(kVictimsMax);
    return victims;
}

// Computes whether the first waiting job would fit if given attempts were stopped.
class Without {
  public:
    Without(const State& state, const Job& first, Time now)
        : state_(state),
          first_(first),
          now_(now),
          capacity_(free_capacity(state, now)),
          limits_(state, now) {
        const auto shapes = allowed_variants(first, limits_, now);
        capacity_ =
            without(capacity_, forbidden_workers(state, first, all_capacity(state, now), shapes));
    }

    bool fits() const {
        const auto holds = [&](int i) {
            return !find_places(first_.spec.shape(i), capacity_).empty();
        };
        return std::ranges::any_of(allowed_variants(first_, limits_, now_), holds);
    }
    void leave(JobId id) {
        give(capacity_, state_.jobs.at(id).attempt->places);
        limits_.add(state_.jobs.at(id), state_.jobs.at(id).resources(), -1);
    }
    void stay(JobId id) {
        take(capacity_, state_.jobs.at(id).attempt->places);
        limits_.add(state_.jobs.at(id), state_.jobs.at(id).resources());
    }
    // Returns whether the attempt may be stopped for the job `first`: the attempt's job has a lower
    // priority or borrows.
    bool may_leave(const Job& job) const {
        return job.spec.priority < first_.spec.priority || limits_.borrows(job);
    }

  private:
    const State& state_;
    const Job& first_;
    Time now_;
    Capacity capacity_;
    Limits limits_;
};

// Returns the victims that must stop so that the waiting job fits. Leaves out victims whose
// resources are not needed. Empty if the job would not fit even if all victims stopped.
std::vector<JobId> choose(const State& state, Without without, const std::vector<JobId>& victims) {
    std::vector<JobId> chosen;
    for (const JobId id : victims) {
        if (without.fits()) break;
        if (!without.may_leave(state.jobs.at(id))) continue;
        without.leave(id);
        chosen.push_back(id);
    }
    if (!without.fits()) return {};
    std::vector<JobId> needed;
    for (const JobId id : chosen) {
        without.stay(id);
        if (without.fits()) continue;  // the job fits even if this attempt continues
        without.leave(id);
        needed.push_back(id);
    }
    return needed;
}

}  // namespace

Events preempt_jobs(const State& state, Time now) {
    if (!state.policy.preempt || state.index.ready.empty()) return {};
    const Limits limits(state, now);
    const auto first = first_waiting(state, now, limits);
    if (!first) return {};
    const Job& job = state.jobs.at(*first);
    Without without(state, job, now);
    for (const JobId id : state.index.running) {
        if (state.jobs.at(id).attempt->phase == AttemptPhase::Stopping) without.leave(id);
    }
    if (without.fits()) return {};  // the attempts that are already stopping suffice
    Events events;
    for (const JobId id : choose(state, without, victims_for(state, job, now, limits))) {
        const std::string reason = "preempted by job " + std::to_string(first->value);
        events.push_back(AttemptStopping{{id, state.jobs.at(id).attempt->token}, reason, true});
    }
    return events;
}

}  // namespace roll::core
