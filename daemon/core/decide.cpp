#include <algorithm>

#include "common/spec/chain.hpp"
#include "common/spec/cron.hpp"
#include "daemon/core/allocations.hpp"
#include "daemon/core/dependency.hpp"
#include "daemon/core/limits.hpp"
#include "daemon/core/lookups.hpp"
#include "daemon/core/machines.hpp"
#include "daemon/core/sizes.hpp"

namespace roll::core {
namespace {

template <class Map>
auto* find(Map& map, const typename Map::key_type& id) {
    const auto found = map.find(id);
    return found == map.end() ? nullptr : &found->second;
}

tl::unexpected<Error> no_such_job(JobId id) {
    return fail(ErrorCode::NotFound, "there is no job " + std::to_string(id.value),
                "rollctl jobs -a");
}

// Returns the job's current attempt if `key` has its token, else nullptr.
const Attempt* current(const State& s, const AttemptKey& key) {
    const Job* job = find(s.jobs, key.job);
    return job && job->attempt && job->attempt->token == key.token ? &*job->attempt : nullptr;
}

const Place* member(const State& s, const AttemptKey& key, WorkerId worker) {
    const Attempt* attempt = current(s, key);
    return attempt == nullptr ? nullptr : attempt->place_on(worker);
}

std::string resolve(std::string text, JobId id) {
    const std::string mark = "{id}";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
        text.replace(at, mark.size(), std::to_string(id.value));
    return text;
}

Result<Events> on(const State& s, const Started& in, Time now) {
    Events events{IncarnationRaised{std::max(s.incarnation + 1, in.at_least), now}};
    if (in.adopting && !s.adopting) events.push_back(AdoptingSet{true});
    return events;
}

Result<Events> on(const State& s, const Adopted&, Time) {
    return s.adopting ? Events{AdoptingSet{false}} : Events{};
}

Result<Events> on(const State& s, const WorkerHeard& in, Time) {
    const auto worker = s.workers.find(in.worker);
    if (worker == s.workers.end() || worker->second.quiet != in.heard) return Events{};
    return Events{WorkerQuiet{in.worker, !in.heard}};
}

Result<Events> on(const State& s, const SetPolicy& in, Time now) {
    if (s.policy == in.policy) return Events{};
    return Events{PolicySet{in.policy, now}};
}

// Returns the account to charge for a submission. Fails with NotFound if there is no such account,
// with Refused if the user may not use it or its limit of jobs is reached.
Result<std::string> admit(const State& s, const Submit& in, int count) {
    const spec::Policy& policy = s.policy;
    std::string account = in.spec.account;
    if (account.empty()) account = spec::default_account(policy, in.user);
    const auto known = policy.accounts.find(account);
    if (!account.empty() && known == policy.accounts.end()) {
        return fail(ErrorCode::NotFound, "there is no account " + account,
                    "name one of rolld.yaml's accounts, or none");
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

Result<Events> on(const State& s, const SetSecrets& in, Time) {
    if (s.secrets == in.names) return Events{};
    return Events{SecretsKnown{in.names}};
}

// Checks that the submitting user has all secrets that the job names.
Result<void> check_secrets(const State& s, const Submit& in, const spec::JobSpec& spec) {
    if (const auto name = missing_secret(s.secrets, in.user, spec)) {
        return fail(ErrorCode::NotFound, in.user + " has no secret " + *name,
                    "rollctl secret set " + *name + " < FILE; rollctl secret list");
    }
    return {};
}

// Checks that the jobs in `afters` exist. Sets `array` in each dependency that names the first job
// of an array, because such a dependency is a dependency on all jobs of the array.
Result<void> check_after(const State& s, std::vector<spec::After>& afters) {
    for (spec::After& after : afters) {
        const Job* job = find(s.jobs, after.job);
        if (job == nullptr) return no_such_job(after.job);
        after.array = job->array == after.job;
    }
    return {};
}

// Replaces each dependency on an array by one dependency per job of the array. An older rolld
// stored dependencies in this second form.
std::vector<spec::After> each_by_itself(const State& s, const std::vector<spec::After>& afters) {
    std::vector<spec::After> all;
    for (const spec::After& after : afters) {
        all.push_back({after.condition, after.job});
        if (!after.array) continue;
        for (auto task = s.jobs.upper_bound(after.job);
             task != s.jobs.end() && task->second.array == after.job; ++task)
            all.push_back({after.condition, task->first});
    }
    return all;
}

// Returns the specs of the jobs of a submission: a single job, the jobs of a chain, or the tasks of
// an array.
Result<std::vector<spec::JobSpec>> tasks_of(const spec::JobSpec& spec, JobId first) {
    if (const auto problems = spec::check_chain(spec); !problems.empty())
        return fail(ErrorCode::InvalidArgument,
                    problems.front().path + " " + problems.front().message);
    if (!spec.array) return spec::chain_of(spec, first);
    ROLL_TRY(const std::vector<int> indices, spec::array_indices(spec.array->indices));
    ROLL_TRY_VOID(check_copies(spec, indices.size()));
    std::vector<spec::JobSpec> tasks;
    for (const int index : indices) tasks.push_back(spec::array_task(spec, index));
    return tasks;
}

// Decides on a submission whose key job `id` already has. A repeated submission changes nothing.
// Priority and begin may differ, because they may have been changed since the first submission.
Result<Events> repeated(const State& s, const Submit& in, JobId id) {
    const Job& job = s.jobs.at(id);
    ROLL_TRY(std::vector<spec::JobSpec> tasks, tasks_of(in.spec, id));
    spec::JobSpec spec = std::move(tasks.front());
    spec.output = spec.cron.empty() ? resolve(spec.output, id) : in.spec.output;
    ROLL_TRY_VOID(check_after(s, spec.after));
    if (job.spec.after.size() > spec.after.size()) spec.after = each_by_itself(s, spec.after);
    spec.priority = job.spec.priority;
    spec.begin = job.spec.begin;
    if (spec.account.empty()) spec.account = job.spec.account;
    if (job.spec == spec) return Events{};
    return fail(ErrorCode::Refused,
                "the key " + in.key + " was already used for a different job: job " +
                    std::to_string(id.value),
                "rollctl show " + std::to_string(id.value));
}

// Checks the job group that a submission names: it must be open and belong to the same user.
Result<void> check_into(const State& s, const Submit& in) {
    const spec::JobSpec& spec = in.spec;
    const bool plain = spec.after.empty() && spec.then.empty() && !spec.array && spec.cron.empty();
    if (spec.open && (spec.into || !plain))
        return fail(
            ErrorCode::InvalidArgument,
            "a job group (`rollctl open`) cannot have `into`, `after`, `array`, `cron` or `then`");
    if (!spec.into) return {};
    if (!spec.cron.empty())
        return fail(ErrorCode::InvalidArgument, "`cron` and `into` cannot be combined");
    const Job* job = find(s.jobs, *spec.into);
    const std::string number = std::to_string(spec.into->value);
    if (job == nullptr) return no_such_job(*spec.into);
    if (job->user != in.user)
        return fail(ErrorCode::Refused,
                    "job " + number + " is " + job->user + "'s, not " + in.user + "'s");
    if (!job->spec.open || job->closed || is_over(job->phase))
        return fail(ErrorCode::Refused,
                    "job " + number + (job->spec.open ? " is closed" : " is not a job group") +
                        ": no job can be added to it",
                    "to create a job group: rollctl open NAME");
    return {};
}

// Checks that no job of the submission waits for the group that the job is put into, because such a
// job would never start.
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

// Checks the sizes in a spec and the jobs that it names. Marks the dependencies that refer to
// arrays.
Result<void> check(const State& s, spec::JobSpec& spec) {
    ROLL_TRY_VOID(check_sizes(spec));
    if (!spec.cron.empty()) {
        ROLL_TRY(const spec::Cron cron, spec::parse_cron(spec.cron));
        static_cast<void>(cron);
        if (spec.array || !spec.then.empty() || !spec.after.empty() || spec.deadline)
            return fail(ErrorCode::InvalidArgument,
                        "`cron` cannot be combined with `after`, `array`, `deadline` or `then`");
    }
    if (spec.source_job && !s.jobs.contains(*spec.source_job)) return no_such_job(*spec.source_job);
    return check_after(s, spec.after);
}

Result<Events> on(const State& s, const Submit& in, Time now) {
    if (const auto* keys = find(s.keys, in.user)) {
        if (const JobId* known = find(*keys, in.key)) return repeated(s, in, *known);
    }
    spec::JobSpec whole = in.spec;
    ROLL_TRY_VOID(check(s, whole));
    ROLL_TRY_VOID(check_into(s, in));
    ROLL_TRY_VOID(check_circle(s, in.spec.into, whole));
    ROLL_TRY_VOID(check_secrets(s, in, whole));
    for (spec::JobSpec& next : whole.then) {
        ROLL_TRY_VOID(check(s, next));
        ROLL_TRY_VOID(check_circle(s, in.spec.into, next));
        ROLL_TRY_VOID(check_secrets(s, in, next));
    }
    ROLL_TRY(std::vector<spec::JobSpec> tasks, tasks_of(whole, JobId{s.next_job}));
    ROLL_TRY(const std::string account, admit(s, in, static_cast<int>(tasks.size())));
    Events events;
    for (spec::JobSpec& spec : tasks) {
        spec.account = account;
        spec.into = in.spec.into;
        const JobId id{s.next_job + events.size()};
        if (!spec.cron.empty())
            spec.begin = spec::next_after(spec::parse_cron(spec.cron).value(),
                                          std::max(now, spec.begin.value_or(now)));
        else
            spec.output = resolve(spec.output, id);
        const JobId array{in.spec.array ? s.next_job : 0};
        events.push_back(
            JobSubmitted{id, events.empty() ? in.key : "", in.user, std::move(spec), now, array});
    }
    return events;
}

Result<Events> on(const State& s, const Cancel& in, Time now) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    if (is_over(job->phase) || job->cancel_requested) return Events{};
    Events events{JobCancelRequested{in.job, in.reason, now, in.by}};
    if (const auto* inside = find(s.index.inside, in.job)) {
        for (const JobId id : *inside)
            if (!s.jobs.at(id).cancel_requested)
                events.push_back(JobCancelRequested{id, in.reason, now, in.by});
    }
    return events;
}

Result<Events> on(const State& s, const Close& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    const std::string number = std::to_string(in.job.value);
    if (!job->spec.open)
        return fail(ErrorCode::Refused, "job " + number + " is not a job group",
                    "rollctl show " + number);
    if (job->closed || is_over(job->phase)) return Events{};
    return Events{JobClosed{in.job, in.by}};
}

Result<Events> on(const State& s, const Hold& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    if (is_over(job->phase) || job->held == in.held) return Events{};
    return Events{JobHeld{in.job, in.held, in.by}};
}

Result<Events> on(const State& s, const SetPriority& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    if (is_over(job->phase) || job->spec.priority == in.priority) return Events{};
    return Events{JobPriorityChanged{in.job, in.priority, in.by}};
}

Result<Events> on(const State& s, const SetBegin& in, Time now) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    if (is_over(job->phase) || (job->spec.begin == in.begin && job->not_before <= in.begin))
        return Events{};
    return Events{JobBeginChanged{in.job, in.begin, now, in.by}};
}

// Returns, in one sentence, why the job cannot save a checkpoint now; empty if it can.
std::string cannot_save(const Job& job) {
    if (!job.spec.trains())
        return std::string("is a ") + spec::name_of(job.spec.kind) +
               " job; only train and resume jobs write checkpoints";
    if (is_over(job.phase)) return "is over; rollctl show lists its checkpoints";
    if (!job.attempt) return "is queued; only running jobs save checkpoints";
    if (job.attempt->phase == AttemptPhase::Stopping)
        return "is already stopping and saves a checkpoint as it stops";
    const auto has_ended = [](const Place& place) { return place.ended && !place.spare; };
    if (std::ranges::any_of(job.attempt->places, has_ended))
        return "is ending: its processes on some nodes have already ended";
    return {};
}

Result<Events> on(const State& s, const AskCheckpoint& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    const std::string number = std::to_string(in.job.value);
    if (const std::string why = cannot_save(*job); !why.empty())
        return fail(ErrorCode::Refused, "job " + number + " " + why, "rollctl show " + number);
    return Events{CheckpointAsked{{in.job, job->attempt->token}, job->attempt->asked + 1, in.by}};
}

// Stops or resumes dispatch. Resuming also ends the exclusion of machines.
Result<Events> on(const State& s, const StopDispatch& in, Time) {
    Events events;
    if (s.stopped != in.why)
        events.push_back(DispatchStopped{in.why.has_value(), in.why.value_or(""), in.by});
    if (in.why) return events;
    for (const auto& [name, machine] : s.machines)
        if (machine.excluded_until) events.push_back(MachineForgiven{name, in.by});
    return events;
}

// Drains nodes, or ends their draining. The latter also ends the exclusion of their machines.
Result<Events> on(const State& s, const Drain& in, Time) {
    Events events;
    const std::string machine = machine_of(in.node);
    if (!in.draining && s.machines.contains(machine))
        events.push_back(MachineForgiven{machine, in.by});
    for (const auto& [id, worker] : s.workers) {
        if (worker.node != in.node) continue;
        if (worker.draining != in.draining) events.push_back(WorkerDrained{id, in.draining, in.by});
        return events;
    }
    if (!events.empty()) return events;
    return fail(ErrorCode::NotFound, "there is no node " + in.node, "rollctl nodes");
}

// Registers a worker. A hello with a new session means that the node's roll-worker was restarted.
// The new process killed the processes of the old one before it registered. The old worker is
// therefore lost, and a late message from it must not bring it back.
Result<Events> on(const State& s, const WorkerHello& in, Time now) {
    if (in.slots < 0 || in.gpus < 0)
        return fail(ErrorCode::InvalidArgument, "a worker's slots and GPUs cannot be negative");
    const auto* known = find(s.sessions, in.node);
    if (known) {
        const auto found = std::ranges::find(*known, in.session);
        if (found != known->end() && found + 1 != known->end())
            return fail(ErrorCode::Refused, "a newer roll-worker already runs as node " + in.node);
    }
    if (s.index.by_session.contains(in.session)) return Events{};
    // Refuse a hello that arrives late, from a process that was already replaced.
    const auto* newest = find(s.generations, in.node);
    if (newest && in.generation > 0 && in.generation < *newest)
        return fail(ErrorCode::Refused, "a newer roll-worker already runs as node " + in.node);
    Events events;
    if (in.pilot) {
        ROLL_TRY(events, welcome_pilot(s, *in.pilot, now));
    }
    if (const auto* old = known ? find(s.index.by_session, known->back()) : nullptr)
        events.push_back(WorkerLost{*old, "roll-worker on " + in.node + " was restarted", now});
    events.push_back(WorkerJoined{WorkerId{s.next_worker}, in.node, in.session, in.slots, in.gpus,
                                  now, in.generation, in.segment, in.gpu_numa});
    if (in.pilot) events.push_back(PilotJoined{WorkerId{s.next_worker}, in.pilot->allocation, now});
    return events;
}

Result<Events> on(const State& s, const WorkerGone& in, Time now) {
    if (!s.workers.contains(in.worker)) return Events{};
    return Events{WorkerLost{in.worker, in.reason, now}};
}

// Handles Slurm's report that the node of a silent worker is down.
//
// The report may be wrong: the node's processes may run until their lease and fence end. Members of
// training jobs on the node end at once, because two attempts at the same time do no harm: their
// output is named by token, and only the output of the current attempt counts. Other jobs wait
// until the worker is lost. The worker gets no new work if it is heard from again.
Result<Events> on(const State& s, const NodeDown& in, Time) {
    const Worker* worker = find(s.workers, in.worker);
    if (worker == nullptr || !worker->quiet) return Events{};
    Events events;
    if (!worker->draining) events.push_back(WorkerDrained{in.worker, true});
    for (const JobId id : jobs_on(s, in.worker)) {
        const Job& job = s.jobs.at(id);
        if (!job.spec.trains()) continue;
        if (job.attempt->place_on(in.worker)->ended) continue;
        events.push_back(
            MemberEnded{{id, job.attempt->token}, in.worker, Outcome::Infra, 1, in.reason, {}});
    }
    return events;
}

// Records that a worker runs an attempt that is not current. The answer to the worker orders it to
// kill the attempt (FENCED). The gateway sends this input once per attempt and worker.
Result<Events> on(const State& s, const StaleClaim& in, Time now) {
    const Worker* worker = find(s.workers, in.worker);
    if (worker == nullptr || is_current(s, in.worker, in.attempt)) return Events{};
    return Events{AttemptFenced{in.attempt, in.worker, worker->node, now}};
}

Result<Events> on(const State& s, const MemberStarted& in, Time now) {
    const Place* place = member(s, in.attempt, in.worker);
    // True if the worker was lost earlier in this turn.
    const bool lost = !s.workers.contains(in.worker);
    if (place == nullptr || place->up || place->ended || lost) return Events{};
    const auto is_up = [&](const Place& p) { return p.up || p.ended || &p == place; };
    Events events{MemberUp{in.attempt, in.worker}};
    if (std::ranges::all_of(current(s, in.attempt)->places, is_up))
        events.push_back(AttemptStarted{in.attempt, now});
    return events;
}

Result<Events> end_member(const State& s, WorkerId worker, const AttemptKey& key, Outcome outcome,
                          int exit_code, const std::string& reason,
                          const std::vector<int>& matched = {}) {
    const Place* place = member(s, key, worker);
    if (place == nullptr || place->ended) return Events{};
    return Events{MemberEnded{key, worker, outcome, exit_code, reason, matched}};
}

Result<Events> on(const State& s, const MemberExited& in, Time) {
    return end_member(s, in.worker, in.attempt, in.outcome, in.exit_code, in.reason, in.matched);
}

// Handles a member that should run on the worker but is missing from its heartbeats. A member that
// was never up may not have received its start order, so the order is repeated.
Result<Events> on(const State& s, const MemberUnknown& in, Time) {
    const Place* place = member(s, in.attempt, in.worker);
    if (place == nullptr) return Events{};
    const bool stopping = current(s, in.attempt)->phase == AttemptPhase::Stopping;
    if (!place->up && !stopping) return Events{};
    if (stopping)
        return end_member(s, in.worker, in.attempt, Outcome::Stopped, 1,
                          "the attempt does not run on this worker");
    return end_member(s, in.worker, in.attempt, Outcome::Infra, 1,
                      "the worker no longer runs the attempt");
}

// Records a checkpoint. The steps of an attempt only grow. Checkpoints of older attempts at the
// same or a later step are replaced. They cannot be usable: otherwise the current attempt would
// have started from one of them.
Result<Events> on(const State& s, const CheckpointWritten& in, Time now) {
    if (member(s, in.attempt, in.worker) == nullptr) return Events{};
    for (const Checkpoint& c : s.jobs.at(in.attempt.job).checkpoints) {
        if (c.step >= in.step && c.token >= in.attempt.token) return Events{};
    }
    const std::uint64_t asked = std::min(in.asked, current(s, in.attempt)->asked);
    return Events{CheckpointRecorded{in.attempt, in.step, in.directory, now, asked,
                                     std::max<std::int64_t>(in.save_ms, 0)}};
}

Result<Events> on(const State& s, const CheckpointDeleted& in, Time) {
    if (member(s, in.attempt, in.worker) == nullptr) return Events{};
    for (const Checkpoint& c : s.jobs.at(in.attempt.job).checkpoints) {
        if (c.step == in.step && c.token == in.token)
            return Events{CheckpointPruned{in.attempt.job, in.step, in.token}};
    }
    return Events{};
}

Result<Events> on(const State& s, const ExportWritten& in, Time now) {
    if (member(s, in.attempt, in.worker) == nullptr) return Events{};
    if (s.jobs.at(in.attempt.job).exported == in.directory) return Events{};
    return Events{ExportRecorded{in.attempt, in.directory, now}};
}

Result<Events> on(const State&, const Tick& in, Time now) {
    if (in.stepped.count() == 0) return Events{};
    return Events{ClockStepped{in.stepped.count(), now}};
}

}  // namespace

bool is_current(const State& state, WorkerId worker, const AttemptKey& key) {
    const Place* place = member(state, key, worker);
    return place != nullptr && !place->ended;
}

Result<Events> decide(const State& state, const Input& input, Time now) {
    return std::visit([&](const auto& in) { return on(state, in, now); }, input);
}

}  // namespace roll::core
