// State as the replies of the client protocol (docs/internals.md). Pure: what is seen is what is
// committed.
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

// What rolld knows besides State, for people: progress of running jobs, when a worker was heard.
struct Told {
    std::string node;
    std::string progress;  // of a member there, as it came: it is parsed for whom it is asked
};
struct Hearsay {
    std::function<std::vector<Told>(JobId)> told{};  // by the members of its attempt
    std::map<WorkerId, std::int64_t> heard_ms_ago;
    std::map<WorkerId, std::string> wall{};       // around its attempts; empty: not known
    std::map<AllocationId, std::string> slurm{};  // what squeue last said
    std::string slurm_trouble{};
};

// Job ids of a selector, ascending: `7`, `3-9` (those that exist), `1,4`, `last` (the newest job
// that a person submitted: no automatic export, no job of cron times), `all`, `@me`, a name with
// globs. Error NotFound if a word selects no job, InvalidArgument if it cannot be read.
Result<std::vector<JobId>> select(const core::State& state, const std::string& selector,
                                  const std::string& user);

// The priority that puts these jobs before all others that are queued: one more than the highest
// of those, unless one of theirs is as high; the same where there is none higher.
int priority_before(const core::State& state, const std::vector<JobId>& ids);

Json summary(const core::State& state, JobId id, const Hearsay& hearsay, Time now);
Result<Json> jobs(const core::State& state, const Json& args, const Hearsay& hearsay, Time now);
Result<Json> show(const core::State& state, const Json& args, const Hearsay& hearsay, Time now);
// The first `limit` workers, and what all of them have.
Json nodes(const core::State& state, const Hearsay& hearsay,
           std::size_t limit = std::numeric_limits<std::size_t>::max());
Json allocations(const core::State& state, const Hearsay& hearsay, Time now);
Json events(std::span<const core::Row> rows, std::int64_t since);

// All that can hold a queued job. For each a test makes that state, does what the remedy says, and
// sees the job start.
inline constexpr std::array kHoldRules = {"stopped", "hold",   "after",   "cron",     "begin",
                                          "retry",   "array",  "quota",   "adopting", "allocation",
                                          "workers", "silent", "segment", "room",     "reservation",
                                          "open",    "secret"};

// One rule that holds a queued job, and what would make it start. Of a job that runs: the nodes of
// it that are not heard.
struct Hold {
    std::string rule;  // of kHoldRules
    std::string why;
    std::string remedy;
    std::vector<std::pair<std::string, std::string>> nodes{};  // what keeps it from each; some
    bool comes = false;                                        // it passes by itself
};
std::vector<Hold> holds(const core::State& state, JobId id, Time now);
Json holds_json(const std::vector<Hold>& holds);
std::string condition_text(const spec::After& after);  // "ok:12"

// What would become of a submission in this turn, of its first job: the nodes that it would start
// on, or what would hold it, and the queue of which an allocation would be ordered for it. Errors
// are those of the submission.
Result<Json> forecast(core::State state, const core::Submit& submit, Time now);

// Why nothing that is connected or on order could ever run the queued job, whatever else it waits
// for; nullopt: something can. Costs little where the first workers can.
std::optional<Hold> never(const core::State& state, JobId id, Time now);

// Refused: never() holds one of the jobs of the submission. Other errors are the submission's.
Result<void> refuse_never(core::State state, const core::Submit& submit, Time now);

// Why a queued job waits, one sentence; empty if it does not.
std::string waiting(const core::State& state, JobId id, Time now);

// What allocation queues have to do with a job that no live worker can hold; none without any.
std::optional<Hold> supply_hold(const core::State& state, const spec::Resources& wanted, Time now);

// "allocation 3 of queue gpu", where one that could hold such a job is on order; else empty.
std::string on_order(const core::State& state, const spec::Resources& wanted);

// What keeps a member of such a job from each worker, at most 64 of them.
std::vector<std::pair<std::string, std::string>> reasons_of_nodes(const core::State& state,
                                                                  const core::Job& job,
                                                                  const spec::Resources& wanted,
                                                                  Time now);

}  // namespace roll::query
