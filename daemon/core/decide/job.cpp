#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/decide/find.hpp"
#include "daemon/core/decide/on.hpp"

namespace roll::core {
namespace {

// The parts of a refusal's message that depend on the request. cannot_take() builds the message.
struct Refusal {
    const char* trains;    // text after "only train and resume jobs" in the message
    const char* runs;      // text after "only running jobs" in the message
    const char* ended;     // text after "has ended" in the message
    const char* stopping;  // text after "is already stopping" in the message
};
constexpr Refusal kOfSave{"write checkpoints", "save checkpoints",
                          "; rollctl show lists its checkpoints",
                          " and saves a checkpoint as it stops"};
constexpr Refusal kOfRequest{"take requests", "take requests", "; only running jobs take requests",
                             " and takes no more requests"};

// Returns, in one sentence, why the job cannot take a request now; empty if it can.
std::string cannot_take(const Job& job, const Refusal& refusal) {
    if (!job.spec.trains())
        return std::string("is a ") + spec::name_of(job.spec.kind) +
               " job; only train and resume jobs " + refusal.trains;
    if (is_over(job.phase)) return std::string("has ended") + refusal.ended;
    if (!job.attempt) return std::string("is queued; only running jobs ") + refusal.runs;
    if (job.attempt->phase == AttemptPhase::Stopping)
        return std::string("is already stopping") + refusal.stopping;
    const auto has_ended = [](const Place& place) { return place.ended && !place.spare; };
    if (std::ranges::any_of(job.attempt->places, has_ended))
        return "is ending: its processes on some nodes have already ended";
    return {};
}

constexpr std::ptrdiff_t kWaitingMost = kRequestsKept - 4;

// Fails with InvalidArgument if the request's value is not allowed.
Result<void> check_value(const AskTraining& in) {
    const std::int64_t most = value_most(in.kind);
    if (in.value >= (most > 0 ? 1 : 0) && in.value <= most) return {};
    const std::string name = name_of(in.kind);
    if (most == 0)
        return fail(
            ErrorCode::InvalidArgument,
            "request " + name + " takes no value; the value is " + std::to_string(in.value));
    return fail(ErrorCode::InvalidArgument, "request " + name + ": the value is " +
                                                std::to_string(in.value) + "; allowed: 1 to " +
                                                std::to_string(most));
}

}  // namespace

Result<Events> on(const State& s, const Cancel& in, Time now) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    if (is_over(job->phase) || job->cancel_requested) return Events{};
    Events events{JobCancelRequested{in.job, in.reason, now, in.by, in.halved}};
    if (const auto* inside = find(s.index.inside, in.job)) {
        for (const JobId id : *inside) {
            ROLL_CHECK(s.jobs.at(id).spec.into == in.job);
            if (!s.jobs.at(id).cancel_requested)
                events.push_back(JobCancelRequested{id, in.reason, now, in.by});
        }
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

// Stops the attempt as a preemption does: a training job saves a checkpoint first, and the attempt
// counts for retry.preempted.
Result<Events> on(const State& s, const Requeue& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    const std::string number = std::to_string(in.job.value);
    if (job->preemptions >= job->spec.retry.preempted)
        return fail(ErrorCode::Refused,
                    "job " + number + " may not be queued again: retry.preempted is " +
                        std::to_string(job->spec.retry.preempted),
                    "rollctl resubmit " + number);
    const bool stops = !job->attempt || job->attempt->phase == AttemptPhase::Stopping ||
                       std::ranges::all_of(job->attempt->places, &Place::ended);
    if (stops || job->cancel_requested) return Events{};
    const std::string reason = "queued again" + (in.by.empty() ? "" : " by " + in.by);
    return Events{AttemptStopping{{in.job, job->attempt->token}, reason, true}};
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

Result<Events> on(const State& s, const AskCheckpoint& in, Time) {
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    const std::string number = std::to_string(in.job.value);
    if (const std::string why = cannot_take(*job, kOfSave); !why.empty())
        return fail(ErrorCode::Refused, "job " + number + " " + why, "rollctl show " + number);
    return Events{CheckpointAsked{{in.job, job->attempt->token}, job->attempt->asked + 1, in.by}};
}

Result<Events> on(const State& s, const AskTraining& in, Time) {
    ROLL_TRY_VOID(check_value(in));
    const Job* job = find(s.jobs, in.job);
    if (job == nullptr) return no_such_job(in.job);
    const std::string number = std::to_string(in.job.value);
    if (const std::string why = cannot_take(*job, kOfRequest); !why.empty())
        return fail(ErrorCode::Refused, "job " + number + " " + why, "rollctl show " + number);
    const auto& requests = job->attempt->requests;
    const auto waits = [](const MadeRequest& made) { return !made.answer.has_value(); };
    if (std::ranges::count_if(requests, waits) >= kWaitingMost)
        return fail(ErrorCode::Refused,
                    "job " + number + " has not answered " + std::to_string(kWaitingMost) +
                        " requests yet; wait until the job answers one of these requests",
                    "rollctl show " + number);
    return Events{TrainingAsked{
        {in.job, job->attempt->token}, {next_number(requests), in.kind, in.value}, in.by}};
}

}  // namespace roll::core
