#include "daemon/core/placement/spares.hpp"

#include <algorithm>

#include "daemon/core/placement/capacity.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/limits.hpp"

namespace roll::core {
namespace {

// Returns the resources that the attempt holds on its workers. Leaves out the blamed node, workers
// that take no jobs, and workers whose heartbeats are missing.
Capacity held_capacity(const State& state, const Attempt& attempt, Time now) {
    const Capacity all = all_capacity(state, now);
    Capacity held;
    for (const Place& place : attempt.places) {
        const auto worker = all.find(place.worker);
        const bool failed =
            worker != all.end() && state.workers.at(place.worker).node == attempt.blamed;
        if (worker == all.end() || failed) continue;
        FreeSlots& free = held[place.worker];
        free = worker->second;
        free.slots = place.slots;
        std::ranges::fill(free.gpus, 0);
        for (const int gpu : place.gpus)
            free.gpus.at(static_cast<std::size_t>(gpu)) = place.gpu_percent;
        free.memory = place.memory;
        free.cpus = place.cpus;
    }
    return held;
}

}  // namespace

std::vector<Place> places_with_spares(const State& state, const Job& job, Outcome outcome,
                                      Time now) {
    spec::Resources wanted = job.resources();
    if (wanted.spares == 0 || outcome != Outcome::Infra || job.held) return {};
    if (state.adopting || state.stopped) return {};
    if (job.spec.begin.value_or(now) > now) return {};  // the user may have set a later begin time
    Limits others(state, now);
    others.add(job, wanted, -1);
    const auto shapes = allowed_variants(job, others, now);
    if (std::ranges::count(shapes, job.attempt->variant) == 0) return {};
    const Capacity held = held_capacity(state, *job.attempt, now);
    for (; wanted.spares >= 0; --wanted.spares) {
        auto places = find_places(wanted, held);
        if (!places.empty()) return places;
    }
    return {};
}

}  // namespace roll::core
