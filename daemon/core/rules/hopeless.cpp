#include <deque>

#include "common/check.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

using Condition = spec::After::Condition;

// exit code of a job that never ran; no program uses it (docs/internals.md)
constexpr int kExitNeverRan = 125;

std::string hopeless(const spec::After& after) {
    const std::string job =
        (after.array ? "a job of array " : "job ") + std::to_string(after.job.value);
    if (after.condition == Condition::Failed)
        return job + " succeeded, but this job waits for it to fail";
    if (after.condition == Condition::Exported)
        return job + " or its export did not succeed, but this job waits for both to succeed";
    return job + " did not succeed, but this job waits for it to succeed";
}

// Collects the events that end queued jobs, and the events that then end the jobs that depend on
// them. Each job ends once.
class Ends {
  public:
    Ends(const State& state, Time now) : state_(state), now_(now) {}

    void cancel(JobId first, const std::string& reason, int exit_code) {
        falling_.push_back({first, reason});
        while (!falling_.empty()) {
            const auto [id, why] = std::move(falling_.front());
            falling_.pop_front();
            if (!ended_.insert(id).second) continue;
            const int code = id == first ? exit_code : kExitNeverRan;
            events_.push_back(JobEnded{id, JobPhase::Cancelled, code, why, now_});
            add_dependents(id);
        }
    }
    Events take() { return std::move(events_); }

  private:
    void add_dependents(JobId id) {
        for (const JobId task : tasks_at(state_, id)) {
            // A trial that successive halving stopped does not make its sweep fail.
            if (task == id && state_.jobs.at(id).halved) continue;
            const JobId array = state_.jobs.at(task).array;
            if (task == id) add_waiting({Condition::Ok, array, true});
            add_waiting({Condition::Exported, array, true});
        }
        const auto waiting = state_.index.dependents.find(id);
        if (waiting == state_.index.dependents.end()) return;
        for (const JobId dependent : waiting->second) {
            for (const spec::After& after : state_.jobs.at(dependent).spec.after) {
                const bool wants_it =
                    after.condition == Condition::Ok || after.condition == Condition::Exported;
                if (!after.array && awaited(state_, after) == id && wants_it)
                    falling_.push_back({dependent, hopeless(after)});
            }
        }
    }
    // Ends the jobs that wait for a condition on an array. The first job of the array that ends
    // without success makes the condition impossible. Later calls for the same condition do
    // nothing.
    void add_waiting(const spec::After& after) {
        if (!fallen_.insert({after.condition, after.job}).second) return;
        const AllOf* all = all_of(state_.index, after);
        ROLL_CHECK(all != nullptr);
        for (const JobId dependent : all->waiting) falling_.push_back({dependent, hopeless(after)});
    }

    const State& state_;
    Time now_;
    Events events_;
    std::set<JobId> ended_;
    // The pairs (condition, array) that add_waiting() has already handled.
    std::set<std::pair<Condition, JobId>> fallen_;
    std::deque<std::pair<JobId, std::string>> falling_;
};

}  // namespace

Events end_hopeless_jobs(const State& state, Time now) {
    Ends ends(state, now);
    for (const JobId id : state.index.doomed) {
        const Job& job = state.jobs.at(id);
        if (job.cancel_requested) {
            ends.cancel(id, job.cancel_reason, kExitCancelled);
            continue;
        }
        const spec::After* never = impossible(state, job);
        ROLL_CHECK(never != nullptr);
        ends.cancel(id, hopeless(*never), kExitNeverRan);
    }
    for (const auto& [at, id] : state.index.deadlines) {
        if (at >= now) break;
        if (state.jobs.at(id).phase == JobPhase::Queued)
            ends.cancel(id, "the job could not start before its deadline", kExitNeverRan);
    }
    return ends.take();
}

}  // namespace roll::core
