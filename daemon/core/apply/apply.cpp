#include "daemon/core/apply/apply.hpp"

#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/apply/on.hpp"

namespace roll::core {
namespace {

// Returns the job that the event changes; 0 if none.
template <class E>
JobId job_of(const E& e) {
    if constexpr (requires { e.parent; }) {
        return e.parent;
    } else if constexpr (requires { e.job; }) {
        return e.job;
    } else if constexpr (requires { e.attempt; }) {
        return e.attempt.job;
    } else {
        return {};
    }
}

}  // namespace

void apply(State& state, const Event& event) {
    const auto applied = [&](const auto& e) {
        const JobId id = job_of(e);
        if (state.jobs.contains(id)) unfile(state, id);
        on(state, e);
        if (state.jobs.contains(id)) file(state, id);
    };
    std::visit(applied, event);
}

}  // namespace roll::core
