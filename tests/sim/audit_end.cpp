// The auditor's checks of what rolld has stored: at each start of rolld and at the end of a world.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using core::JobPhase;

void Auditor::check_acknowledged(const core::State& state) const {
    for (const auto& [key, id] : acknowledged_) {
        const core::Job& job = state.jobs.at(id);
        ROLL_CHECK(job.key == key);
        ROLL_CHECK(state.keys.at(job.user).at(key) == id);
    }
}

void Auditor::finish(const core::State& state) const {
    check_acknowledged(state);
    for (const auto& [id, real] : state.jobs) {
        ROLL_CHECK(core::is_over(real.phase));
        ROLL_CHECK(real.past.size() == real.attempts);
        ROLL_CHECK(
            std::ranges::equal(real.past, jobs_.at(id).used, {}, &core::EndedAttempt::usage));
        if (real.phase != JobPhase::Done || real.spec.kind != spec::JobKind::Train) continue;
        // The newest checkpoint that the last attempt wrote must be the newest one recorded.
        std::int64_t newest = 0;
        bool forgotten = false;
        for (const auto& one : written_) {
            const auto& [owner, step, token] = one;
            if (owner != id || token != real.past.back().token) continue;
            forgotten |= forgotten_.contains(one);
            if (!forgotten_.contains(one)) newest = std::max(newest, step);
        }
        if (newest == 0) continue;
        const std::int64_t last = real.checkpoints.back().step;
        ROLL_CHECK(forgotten ? last >= newest : last == newest);
    }
}

}  // namespace roll::sim
