#include "daemon/query/starts.hpp"

#include "daemon/core/rules/place.hpp"
#include "daemon/core/rules/predicted_starts.hpp"

namespace roll::query {

std::map<JobId, Time> known_starts(const core::State& state, Time now) {
    std::map<JobId, Time> starts;
    for (const core::PredictedStart& start : core::predicted_starts(state, now))
        if (start.at) starts.emplace(start.job, *start.at);
    const auto promise = core::promised(state, now);
    if (promise && promise->at) starts[promise->job] = *promise->at;
    return starts;
}

std::optional<Time> Starts::of(JobId id, const core::Job& job) {
    if (job.phase != core::JobPhase::Queued) return std::nullopt;
    if (!starts_) starts_ = known_starts(state_, now_);
    const auto found = starts_->find(id);
    return found == starts_->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace roll::query
