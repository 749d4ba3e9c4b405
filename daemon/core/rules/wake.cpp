#include "daemon/core/rules/rules.hpp"

namespace roll::core {

Events wake_jobs(const State& state, Time now) {
    Events events;
    for (const auto& [at, id] : state.index.sleeping) {
        if (at > now) break;
        if (state.jobs.at(id).spec.cron.empty()) events.push_back(JobDue{id});
    }
    return events;
}

}  // namespace roll::core
