// Builds the replies of the client protocol from State (docs/internals.md). The functions are pure.
// They show only committed state.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/protocol/view_operations.hpp"
#include "daemon/core/core.hpp"
#include "daemon/core/state/row.hpp"

namespace roll::query {

// Told, HeardWorker and Hearsay have information that is not in State and is only displayed, such
// as the progress of running jobs.
struct Told {
    std::string node;
    std::string progress;  // progress of the job's member on the node; not parsed yet
};
struct HeardWorker {
    std::optional<std::int64_t> heard_ms_ago{};
    // how the worker enforces the limits of jobs, how it isolates attempts, its host and process
    std::string limits{}, wall{}, process{};
};
struct Hearsay {
    // Returns one entry per member of the job's attempt.
    std::function<std::vector<Told>(JobId)> told{};
    std::map<WorkerId, HeardWorker> workers{};
    std::map<AllocationId, std::string> slurm{};  // states that squeue last reported
    std::string slurm_trouble{};
};

// Returns the ids of the jobs that a selector names, in ascending order. A selector is `7`, `3-9`
// (only the existing jobs), `1,4`, `last`, `all`, `@me`, or a name with globs. `last` is the newest
// job that a person submitted, which excludes automatic exports and jobs queued by cron. Fails with
// NotFound if a word of the selector matches no job, and with InvalidArgument if a word cannot be
// parsed.
Result<std::vector<JobId>> select(const core::State& state, const std::string& selector,
                                  const std::string& user);

// Returns the smallest priority that puts the jobs `ids` before all other queued jobs.
int priority_before(const core::State& state, const std::vector<JobId>& ids);

// Returns the kind of a job, such as "train"; "open" for a job group.
const char* kind_name(const core::Job& job);

// Makes the summaries of jobs for a reply.
class Rows {
  public:
    // `fields` names the fields of each summary; empty: all. Unknown names are ignored, because a
    // newer client may send them. `state` and `hearsay` must outlive this object.
    Rows(const core::State& state, const Hearsay& hearsay, Time now,
         const std::vector<std::string>& fields);
    ~Rows();
    Json row(JobId id, const core::Job& job);

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

Json summary(const core::State& state, JobId id, const Hearsay& hearsay, Time now);
Result<Json> jobs(const core::State& state, const protocol::JobsArgs& args, const Hearsay& hearsay,
                  Time now);
Result<Json> show(const core::State& state, const protocol::ShowArgs& args, const Hearsay& hearsay,
                  Time now);

// In a reply of show() about another user's job, replaces the values of environment variables by
// null. If `user` is not an operator, also removes the diff of the work tree.
void hide_private(Json& shown, const std::string& user, bool is_operator);
// Returns the first `limit` workers, and the totals of all workers.
Json nodes(const core::State& state, const Hearsay& hearsay,
           std::size_t limit = std::numeric_limits<std::size_t>::max());
Json allocations(const core::State& state, const Hearsay& hearsay, Time now);
// Returns counts of jobs, users, workers and allocations for monitoring. Visits each job once.
Json totals(const core::State& state, Time now);
// Returns the use and the limits of a user and the user's accounts, and the user's waiting jobs.
Json usage(const core::State& state, const protocol::UsageArgs& args, Time now);
// Returns whether a job or rolld.yaml names the user.
bool knows_user(const core::State& state, const std::string& user);
// Returns a page of the report about the resources that jobs held and wasted.
Result<Json> report(const core::State& state, const protocol::ReportArgs& args, Time now);
// Returns a training job's effective training time ratio (docs/reference.md); null if none.
Json ettr(const core::Job& job, Time now);
// Like ettr(), for all training jobs together that have not ended; null if none has started.
Json ettr_of_open(const core::State& state, Time now);
Json events(const core::State& state, std::span<const core::Row> rows, std::int64_t since);

// All rules that can hold a queued job. For each rule, a test creates such a hold, applies the
// remedy and checks that the job starts.
inline constexpr std::array kHoldRules = {"stopped", "hold",   "after",   "cron",     "begin",
                                          "retry",   "array",  "quota",   "adopting", "allocation",
                                          "workers", "silent", "segment", "room",     "reservation",
                                          "open",    "secret"};

// A rule that holds a queued job, and the remedy. A running job has a hold if one of its nodes is
// silent.
struct Hold {
    std::string rule;  // one of kHoldRules
    std::string why;
    std::string remedy;
    // Names of some nodes, each with the reason why the node cannot be used.
    std::vector<std::pair<std::string, std::string>> nodes{};
    bool comes = false;  // true if the hold ends by itself, without an action of a user
};
std::vector<Hold> holds(const core::State& state, JobId id, Time now);
Json holds_json(const std::vector<Hold>& holds);
std::string condition_text(const spec::After& after);  // text of the condition, such as "ok:12"

// Predicts what would happen to the first job of a submission. Returns the nodes on which the job
// would start in this turn, or its holds if it would not start. Also returns the queue from which
// rolld would request an allocation for the job. Fails if the submission would fail.
Result<Json> forecast(core::State state, const core::Submit& submit, Time now);

// Returns a hold if the job could never run, neither on a connected worker nor in an allocation
// that may be requested. Otherwise returns nullopt. Ignores other reasons to wait. Takes little
// time if one of the first workers could run the job.
std::optional<Hold> never(const core::State& state, JobId id, Time now);

// Fails if the submission would fail. Also fails with Refused if never() returns a hold for one of
// its jobs.
Result<void> refuse_never(core::State state, const core::Submit& submit, Time now);

// Returns one sentence about why a queued job waits; empty if the job does not wait.
std::string waiting(const core::State& state, JobId id, Time now);

// Returns the hold that the allocation queues cause for a job that no live worker can hold; nullopt
// if there are no queues.
std::optional<Hold> supply_hold(const core::State& state, const spec::Resources& wanted, Time now);

// Returns an allocation that is requested, not granted yet, and could hold a job with these
// resources, as text such as "allocation 3 of queue gpu". Empty if there is none.
std::string on_order(const core::State& state, const spec::Resources& wanted);

// Returns the names of at most 64 workers, and why each cannot take a member of the job now.
std::vector<std::pair<std::string, std::string>> reasons_of_nodes(const core::State& state,
                                                                  const core::Job& job,
                                                                  const spec::Resources& wanted,
                                                                  Time now);

}  // namespace roll::query
