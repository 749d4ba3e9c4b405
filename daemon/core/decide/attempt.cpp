#include <algorithm>

#include "daemon/core/decide/find.hpp"
#include "daemon/core/decide/on.hpp"

namespace roll::core {
namespace {

Result<Events> end_member(const State& s, MemberEnded ended) {
    const Place* place = member(s, ended.attempt, ended.worker);
    if (place == nullptr || place->ended) return Events{};
    return Events{std::move(ended)};
}

}  // namespace

Result<Events> on(const State& s, const MemberStarted& in, Time now) {
    const Place* place = member(s, in.attempt, in.worker);
    // True if an earlier input of this turn (pass of rolld's loop) has removed the worker.
    const bool lost = !s.workers.contains(in.worker);
    if (place == nullptr || place->up || place->ended || lost) return Events{};
    const auto is_up = [&](const Place& p) { return p.up || p.ended || &p == place; };
    Events events{MemberUp{in.attempt, in.worker}};
    if (std::ranges::all_of(current(s, in.attempt)->places, is_up))
        events.push_back(AttemptStarted{in.attempt, now});
    return events;
}

Result<Events> on(const State& s, const MemberExited& in, Time) {
    if (lowest(in.usage) < 0)
        return fail(ErrorCode::InvalidArgument,
                    "the usage of an attempt is negative; allowed: 0 or more");
    return end_member(
        s, {in.attempt, in.worker, in.outcome, in.exit_code, in.reason, in.matched, in.usage});
}

// Handles a member that should run on the worker but is missing from the worker's heartbeats. If
// the member was never up, its start command may have been lost, so the command is repeated.
Result<Events> on(const State& s, const MemberUnknown& in, Time) {
    const Place* place = member(s, in.attempt, in.worker);
    if (place == nullptr) return Events{};
    const bool stopping = current(s, in.attempt)->phase == AttemptPhase::Stopping;
    if (!place->up && !stopping) return Events{};
    if (stopping)
        return end_member(s, {in.attempt, in.worker, Outcome::Stopped, 1,
                              "the attempt does not run on this worker"});
    return end_member(
        s, {in.attempt, in.worker, Outcome::Infra, 1, "the worker no longer runs the attempt"});
}

// Records a checkpoint. Ignores it if this attempt has already recorded a checkpoint at the same or
// a later step. The recorded event also removes the checkpoints of older attempts at the same or a
// later step. None of them is usable: the current attempt would have continued from a usable one.
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

// Records the answer to a request. Ignores answers that are already recorded.
Result<Events> on(const State& s, const RequestDone& in, Time now) {
    if (member(s, in.attempt, in.worker) == nullptr) return Events{};
    const auto& requests = current(s, in.attempt)->requests;
    const auto made = std::ranges::find_if(requests, [&](const MadeRequest& one) {
        return one.request.number == in.answer.number && !one.answer;
    });
    if (made == requests.end()) return Events{};
    return Events{TrainingAnswered{in.attempt, in.answer, now}};
}

Result<Events> on(const State& s, const ExportWritten& in, Time now) {
    if (member(s, in.attempt, in.worker) == nullptr) return Events{};
    const Job& job = s.jobs.at(in.attempt.job);
    if (in.step == 0 && job.exported == in.directory) return Events{};
    if (in.step < 0) return Events{};
    // Ignore a recorded export: an attempt reports the exports of earlier attempts again.
    if (in.step > 0 && !job.exports.empty() && job.exports.back().step >= in.step) return Events{};
    return Events{ExportRecorded{in.attempt, in.directory, now, in.step, in.oldest}};
}

}  // namespace roll::core
