#include "daemon/core/rules/place.hpp"
#include "daemon/core/rules/rules.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {

Result<Json> forecast(core::State state, const core::Submit& submit, Time now) {
    const JobId first{state.next_job};
    ROLL_TRY(const core::Events events, core::decide(state, submit, now));
    for (const core::Event& event : events) core::apply(state, event);
    for (const core::Event& event : core::place_jobs(state, now)) core::apply(state, event);
    Json orders = nullptr;
    for (const core::Event& event : core::match_supply(state, now)) {
        if (const auto* order = std::get_if<core::AllocationOrdered>(&event)) orders = order->queue;
        // Apply the event that requests an allocation. The job would wait for this allocation, and
        // holds() can then name it.
        core::apply(state, event);
    }
    const core::Job& job = state.jobs.at(first);
    return Json{{"schema", "roll.forecast/1"},
                {"starts", job.attempt.has_value()},
                {"nodes", job.attempt ? Json(job.attempt->nodes) : Json::array()},
                {"holds", holds_json(holds(state, first, now))},
                {"orders", orders}};
}

}  // namespace roll::query
