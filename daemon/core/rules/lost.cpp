#include "daemon/core/rules/rules.hpp"

namespace roll::core {

Events end_lost_members(const State& state, Time) {
    Events events;
    for (const JobId id : state.index.running) {
        const Job& job = state.jobs.at(id);
        for (const Place& place : job.attempt->places) {
            if (place.ended || state.workers.contains(place.worker)) continue;
            events.push_back(MemberEnded{
                {id, job.attempt->token}, place.worker, Outcome::Infra, 1, "the worker was lost"});
        }
    }
    return events;
}

}  // namespace roll::core
