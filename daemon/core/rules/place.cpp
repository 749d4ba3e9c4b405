#include "daemon/core/room.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// The first of each group, in the order in which they are looked at.
using Heads = std::set<std::pair<Turn, const Group*>>;

// How many jobs of each array run, those of this turn included.
class Arrays {
  public:
    explicit Arrays(const State& state) : running_(state.index.array_running) {}
    bool is_full(const Job& job) {
        return job.spec.array && job.spec.array->limit > 0 &&
               running_[job.array] >= job.spec.array->limit;
    }
    void add(const Job& job) {
        if (job.spec.array) ++running_[job.array];
    }

  private:
    std::map<JobId, int> running_;
};

}  // namespace

// The first job that must wait holds back all behind it, so that no wide job starves; a job that no
// set of live workers could ever hold does not count, nor one that only its array's limit keeps.
Events place_jobs(const State& state, Time now) {
    Events events;
    const auto& ready = state.index.ready;
    if (ready.empty() || state.workers.empty()) return events;
    const Room all = all_room(state, now);
    Room free = free_room(state, now);
    Arrays arrays(state);
    Heads heads;
    for (const auto& [group, turns] : ready) heads.insert({*turns.begin(), &group});
    while (!heads.empty()) {
        const auto [turn, group] = heads.extract(heads.begin()).value();
        const Job& job = state.jobs.at(turn.job);
        if (arrays.is_full(job)) continue;
        const auto places = find_places(job.spec.resources, free);
        if (places.empty()) {
            if (find_places(job.spec.resources, all).empty()) continue;
            return events;
        }
        take(free, places);
        arrays.add(job);
        events.push_back(
            AttemptPlaced{{turn.job, {state.incarnation, job.attempts + 1}}, places, now});
        const auto& turns = ready.at(*group);
        if (const auto next = turns.upper_bound(turn); next != turns.end())
            heads.insert({*next, group});
    }
    return events;
}

}  // namespace roll::core
