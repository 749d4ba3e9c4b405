#include "daemon/core/apply/clock.hpp"

#include <utility>

#include "common/check.hpp"
#include "daemon/core/apply/indexing.hpp"

namespace roll::core {
namespace {

// Shifts times by `step`. A time equal to Time{} is unset and is not shifted.
struct Mover {
    std::chrono::milliseconds step;

    void operator()(Time& time) const {
        if (time != Time{}) time += step;
    }
    void operator()(std::optional<Time>& time) const {
        if (time) *time += step;
    }
    void operator()(Job& job) const {
        for (Time* time : {&job.submitted_at, &job.not_before}) (*this)(*time);
        (*this)(job.ended_at);
        for (EndedAttempt& past : job.past) {
            for (Time* time : {&past.placed_at, &past.ended_at}) (*this)(*time);
            (*this)(past.started_at);
        }
        if (!job.attempt) return;
        (*this)(job.attempt->placed_at);
        (*this)(job.attempt->started_at);
    }
    void operator()(Machine& machine) const {
        for (Fault& fault : machine.faults) (*this)(fault.at);
        (*this)(machine.excluded_until);
    }
    void operator()(Allocation& a) const {
        for (Time* time : {&a.ordered_at, &a.granted_at, &a.used_at}) (*this)(*time);
    }
};

}  // namespace

void move_instants(State& state, std::chrono::milliseconds step) {
    const Mover move{step};
    for (auto& [id, job] : state.jobs) move(job);
    for (auto& [id, worker] : state.workers) move(worker.joined_at);
    for (auto& [name, machine] : state.machines) move(machine);
    for (auto& [name, queue] : state.queues) move(queue.not_before);
    for (auto& [id, allocation] : state.allocations) move(allocation);
    for (auto& [user, use] : state.use) move(use.at);
    Index moved = make_index(state);  // rebuild the index, because it is sorted by time
    ROLL_CHECK(moved.open == state.index.open && moved.by_worker == state.index.by_worker);
    ROLL_CHECK(moved.sleeping.size() == state.index.sleeping.size());
    state.index = std::move(moved);
}

}  // namespace roll::core
