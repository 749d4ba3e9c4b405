#include <algorithm>

#include <fmt/format.h>

#include "common/replace.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/job/array_tasks.hpp"
#include "common/spec/job/chain.hpp"
#include "common/spec/job/same_job.hpp"
#include "common/spec/job/sweep.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/cron.hpp"
#include "daemon/core/decide/find.hpp"
#include "daemon/core/decide/on.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/placement/limits.hpp"

namespace roll::core {
namespace {

// Fails if `spec` makes jobs that are too large in total. `jobs` is the number of these jobs. Each
// of them holds the whole document of `spec`.
Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs) {
    constexpr std::size_t kBytesMax = 256u << 20;
    // Only the first trial of a sweep keeps the list of all trials.
    const auto trials = spec::Trials::of(spec.document.text());
    const std::size_t document = trials && trials->count() > 0
                                     ? trials->document(trials->count() - 1).size()
                                     : spec.document.size();
    const std::size_t each = document + spec.export_document.size();
    if (each * jobs <= kBytesMax) return {};
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("array: the job documents of {} tasks have {} bytes each, which is more "
                    "than 256 MiB in total",
                    jobs, each),
        "put a large script into a file, or make fewer tasks");
}

// Returns the account to charge for a submission. Fails with NotFound if there is no such account.
// Fails with Refused if the user may not use the account, or if a limit on the number of jobs is
// reached.
Result<std::string> admit(const State& s, const Submit& in, int count) {
    const spec::Policy& policy = s.policy;
    std::string account = in.spec.account;
    if (account.empty()) account = spec::default_account(policy, in.user);
    const auto known = policy.accounts.find(account);
    if (!account.empty() && known == policy.accounts.end()) {
        return fail(ErrorCode::NotFound, "there is no account " + account,
                    "use an account that rolld.yaml lists, or leave out the account");
    }
    const bool open = account.empty() || known->second.users.empty();
    if (!open && std::ranges::count(known->second.users, in.user) == 0)
        return fail(ErrorCode::Refused, "account " + account + " is not for user " + in.user,
                    "ask an administrator to add you to `users` of this account in rolld.yaml");
    if (const auto excess = too_many_jobs(s, {account, in.user}, count)) {
        return fail(ErrorCode::Refused, excess->why,
                    "wait until some jobs end, cancel some jobs, or have an administrator raise " +
                        excess->setting + " in rolld.yaml");
    }
    return account;
}

// Checks that the submitting user has all secrets that the job names.
Result<void> check_secrets(const State& s, const Submit& in, const spec::JobSpec& spec) {
    if (const auto name = missing_secret(s.secrets, in.user, spec)) {
        return fail(ErrorCode::NotFound, in.user + " has no secret " + *name,
                    "rollctl secret set " + *name + " < FILE; rollctl secret list");
    }
    return {};
}

// Checks that the jobs in `afters` exist. A dependency on the first job of an array stands for all
// jobs of the array. Sets `array` in such a dependency.
Result<void> check_after(const State& s, std::vector<spec::After>& afters) {
    for (spec::After& after : afters) {
        const Job* job = find(s.jobs, after.job);
        if (job == nullptr) return no_such_job(after.job);
        after.array = job->array == after.job;
    }
    return {};
}

// Returns the specs of the jobs of a submission: a single job, the jobs of a chain, or the tasks of
// an array.
Result<std::vector<spec::JobSpec>> tasks_of(spec::JobSpec spec, JobId first) {
    if (!spec.array) return spec::chain_of(std::move(spec), first);
    ROLL_TRY(const std::vector<int> indices, spec::array_indices(spec.array->indices));
    ROLL_TRY_VOID(check_copies(spec, indices.size()));
    return spec::array_tasks(spec, indices);
}

// Decides on a submission that has the same key as the existing job `id`. An identical submission
// changes nothing. Fails with Refused if the submission differs from the job. Priority and begin
// may differ, because they may have been changed since the first submission.
Result<Events> repeated(const State& s, const Submit& in, JobId id) {
    const Job& job = s.jobs.at(id);
    if (const auto problems = spec::check_chain(in.spec); !problems.empty())
        return fail(ErrorCode::InvalidArgument, spec::sentence(problems.front()));
    ROLL_TRY(std::vector<spec::JobSpec> tasks, tasks_of(in.spec, id));
    spec::JobSpec spec = std::move(tasks.front());
    spec.output = spec.cron.empty() ? replaced(spec.output, "{id}", std::to_string(id.value))
                                    : in.spec.output;
    ROLL_TRY_VOID(check_after(s, spec.after));
    spec.priority = job.spec.priority;
    spec.begin = job.spec.begin;
    if (spec.account.empty()) spec.account = job.spec.account;
    if (spec::same_job(job.spec, spec)) return Events{};
    return fail(ErrorCode::Refused,
                "the idempotency key " + in.key + " was already used for a different job: job " +
                    std::to_string(id.value),
                "rollctl show " + std::to_string(id.value));
}

// Checks the job group that a submission names: it must be open and belong to the same user.
Result<void> check_into(const State& s, const Submit& in) {
    const spec::JobSpec& spec = in.spec;
    if (!spec.into) return {};
    const Job* job = find(s.jobs, *spec.into);
    const std::string number = std::to_string(spec.into->value);
    if (job == nullptr) return no_such_job(*spec.into);
    if (job->user != in.user)
        return fail(ErrorCode::Refused,
                    "job " + number + " belongs to " + job->user + ", not to " + in.user);
    // Check `cancel_requested`, too, because a group that was cancelled in this turn has not ended
    // yet.
    if (!job->spec.open || job->closed || job->cancel_requested || is_over(job->phase))
        return fail(ErrorCode::Refused,
                    "job " + number + (job->spec.open ? " is closed" : " is not a job group") +
                        ": no job can be added to it",
                    "to create a job group: rollctl open NAME");
    return {};
}

// Fails if a job of the submission waits for the group that it is put into. The group ends only
// after the job, so the job would never start.
Result<void> check_circle(const State& s, const std::optional<JobId>& into,
                          const spec::JobSpec& spec) {
    if (!into || !lead_to(s, spec.after, *into)) return {};
    const std::string number = std::to_string(into->value);
    return fail(ErrorCode::Refused,
                "job " + number +
                    " cannot contain this job: the job group ends only after all its jobs, but "
                    "this job waits (`after`) for job " +
                    number,
                "submit the job without `into` or without `after`");
}

// Checks the job from which a spec starts. A resumed job needs a checkpoint when it starts: one
// that is recorded, or one that the other job may still save because the resumed job waits for its
// end.
Result<void> check_source(const State& s, const spec::JobSpec& spec) {
    if (!spec.source_job) return {};
    const Job* source = find(s.jobs, *spec.source_job);
    if (source == nullptr) return no_such_job(*spec.source_job);
    const bool resumes = spec.kind == spec::JobKind::Resume;
    if (!resumes || !source->checkpoints.empty()) return {};
    const std::string number = std::to_string(spec.source_job->value);
    if (!is_over(source->phase) && lead_to(s, spec.after, *spec.source_job)) return {};
    if (!is_over(source->phase))
        return fail(ErrorCode::Refused,
                    "job " + number + " has no checkpoint yet, so it cannot be resumed now",
                    "--after any:" + number + " resumes it once it has ended; rollctl checkpoint " +
                        number + " saves a checkpoint now");
    return fail(ErrorCode::Refused,
                "job " + number + " has ended without a checkpoint, so it cannot be resumed",
                "rollctl resubmit " + number + " trains from the start; rollctl show " + number +
                    " says how the job ended");
}

// Checks the jobs that a spec names, and calls check_after() for its dependencies.
Result<void> check_jobs(const State& s, spec::JobSpec& spec) {
    ROLL_TRY_VOID(check_source(s, spec));
    return check_after(s, spec.after);
}

}  // namespace

Result<Events> on(const State& s, const Submit& in, Time now) {
    if (const auto* keys = find(s.keys, in.user)) {
        if (const JobId* known = find(*keys, in.key)) return repeated(s, in, *known);
    }
    ROLL_TRY_VOID(spec::check_spec(in.spec));
    spec::JobSpec whole = in.spec;
    ROLL_TRY_VOID(check_jobs(s, whole));
    ROLL_TRY_VOID(check_into(s, in));
    ROLL_TRY_VOID(check_circle(s, in.spec.into, whole));
    ROLL_TRY_VOID(check_secrets(s, in, whole));
    for (spec::JobSpec& next : whole.then) {
        ROLL_TRY_VOID(check_jobs(s, next));
        ROLL_TRY_VOID(check_circle(s, in.spec.into, next));
        ROLL_TRY_VOID(check_secrets(s, in, next));
    }
    ROLL_TRY(std::vector<spec::JobSpec> tasks, tasks_of(std::move(whole), JobId{s.next_job}));
    ROLL_TRY(const std::string account, admit(s, in, static_cast<int>(tasks.size())));
    Events events;
    events.reserve(tasks.size());
    for (spec::JobSpec& spec : tasks) {
        spec.account = account;
        spec.into = in.spec.into;
        const JobId id{s.next_job + events.size()};
        if (!spec.cron.empty())
            spec.begin = spec::next_after(spec::parse_cron(spec.cron).value(),
                                          std::max(now, spec.begin.value_or(now)));
        else
            spec.output = replaced(spec.output, "{id}", std::to_string(id.value));
        const JobId array{in.spec.array ? s.next_job : 0};
        events.push_back(
            JobSubmitted{id, events.empty() ? in.key : "", in.user, std::move(spec), now, array});
    }
    return events;
}

}  // namespace roll::core
