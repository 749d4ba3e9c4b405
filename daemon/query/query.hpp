// Builds the replies of the client protocol from State (docs/internals.md). Pure: shows only
// committed state.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "daemon/core/core.hpp"
#include "daemon/core/row.hpp"

namespace roll::query {

// Live information outside State, for display: progress of running jobs, when a worker was heard.
struct Told {
    std::string node;
    std::string progress;  // progress of a member there; parsed when requested
};
struct Hearsay {
    std::function<std::vector<Told>(JobId)> told{};  // one per member of the job's attempt
    std::map<WorkerId, std::int64_t> heard_ms_ago;
    std::map<WorkerId, std::string> wall{};       // how its attempts are contained; empty: unknown
    std::map<AllocationId, std::string> slurm{};  // last state shown by squeue
    std::string slurm_trouble{};
};

// Returns the job ids of a selector, ascending: `7`, `3-9` (those that exist), `1,4`, `last` (the
// newest job submitted by a person, not an automatic export or a job of cron times), `all`,
// `@me`, or a name with globs. Fails with NotFound if a word selects no job, with InvalidArgument
// if it cannot be parsed.
Result<std::vector<JobId>> select(const core::State& state, const std::string& selector,
                                  const std::string& user);

// Returns the smallest priority that puts `ids` ahead of all other queued jobs.
int priority_before(const core::State& state, const std::vector<JobId>& ids);

Json summary(const core::State& state, JobId id, const Hearsay& hearsay, Time now);
Result<Json> jobs(const core::State& state, const Json& args, const Hearsay& hearsay, Time now);
Result<Json> show(const core::State& state, const Json& args, const Hearsay& hearsay, Time now);
// Returns the first `limit` workers, and the totals of all workers.
Json nodes(const core::State& state, const Hearsay& hearsay,
           std::size_t limit = std::numeric_limits<std::size_t>::max());
Json allocations(const core::State& state, const Hearsay& hearsay, Time now);
Json events(std::span<const core::Row> rows, std::int64_t since);

// All rules that can hold a queued job. For each rule a test creates such a hold, applies the
// remedy and sees the job start.
inline constexpr std::array kHoldRules = {"stopped", "hold",   "after",   "cron",     "begin",
                                          "retry",   "array",  "quota",   "adopting", "allocation",
                                          "workers", "silent", "segment", "room",     "reservation",
                                          "open",    "secret"};

// One rule that holds a queued job, and its remedy. For a running job: a silent node.
struct Hold {
    std::string rule;  // one of kHoldRules
    std::string why;
    std::string remedy;
    std::vector<std::pair<std::string, std::string>> nodes{};  // reasons per node, for some nodes
    // The hold ends by itself, without action by anyone.
    bool comes = false;
};
std::vector<Hold> holds(const core::State& state, JobId id, Time now);
Json holds_json(const std::vector<Hold>& holds);
std::string condition_text(const spec::After& after);  // "ok:12"

// Predicts a submission in this turn, for its first job: the nodes it would start on, or what
// would hold it, and the queue that would order an allocation for it. Fails like the submission.
Result<Json> forecast(core::State state, const core::Submit& submit, Time now);

// Returns why no connected worker and no ordered allocation could ever run the queued job, ignoring
// other holds; nullopt if one can. Cheap if the first workers can.
std::optional<Hold> never(const core::State& state, JobId id, Time now);

// Fails with Refused if never() returns a hold for a job of the submission. Otherwise fails if the
// submission would fail.
Result<void> refuse_never(core::State state, const core::Submit& submit, Time now);

// Returns one sentence why a queued job waits; empty if it does not.
std::string waiting(const core::State& state, JobId id, Time now);

// Returns the hold by allocation queues for a job that no live worker can hold; nullopt without
// queues.
std::optional<Hold> supply_hold(const core::State& state, const spec::Resources& wanted, Time now);

// Returns "allocation 3 of queue gpu" if an allocation that could hold such a job is on order;
// else empty.
std::string on_order(const core::State& state, const spec::Resources& wanted);

// Returns why each worker cannot take a member of such a job now, for at most 64 workers.
std::vector<std::pair<std::string, std::string>> reasons_of_nodes(const core::State& state,
                                                                  const core::Job& job,
                                                                  const spec::Resources& wanted,
                                                                  Time now);

}  // namespace roll::query
