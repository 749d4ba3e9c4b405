#include "daemon/core/dependency.hpp"

#include <algorithm>

namespace roll::core {

Held holds(spec::After::Condition condition, JobPhase phase) {
    if (!is_over(phase)) return Held::Not;
    const bool ok = phase == JobPhase::Done;
    switch (condition) {
        case spec::After::Condition::Ok: return ok ? Held::Yes : Held::Never;
        case spec::After::Condition::Failed: return ok ? Held::Never : Held::Yes;
        case spec::After::Condition::Any: return Held::Yes;
    }
    return Held::Never;
}

Held dependencies(const State& state, const Job& job) {
    Held all = Held::Yes;
    for (const spec::After& after : job.spec.after) {
        const Held one = holds(after.condition, state.jobs.at(after.job).phase);
        if (one == Held::Never) return one;
        if (one == Held::Not) all = one;
    }
    return all;
}

const spec::After* impossible(const State& state, const Job& job) {
    const auto never = [&](const spec::After& after) {
        return holds(after.condition, state.jobs.at(after.job).phase) == Held::Never;
    };
    const auto found = std::ranges::find_if(job.spec.after, never);
    return found == job.spec.after.end() ? nullptr : &*found;
}

}  // namespace roll::core
