#include "daemon/core/apply/faults.hpp"

#include <algorithm>
#include <ranges>

#include "common/check.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/facts/machines.hpp"

namespace roll::core {
namespace {

constexpr std::size_t kFaultsMax = 64;
// Faults within this interval count as simultaneous. The interval must exceed the time after which
// a silent worker counts as lost.
constexpr auto kSameTime = std::chrono::seconds(60);

// Returns whether the worker was draining, or its allocation was being released.
bool was_to_go(const State& state, const Worker& worker) {
    const auto a = state.allocations.find(worker.allocation);
    return worker.draining || (a != state.allocations.end() && a->second.releasing);
}

// Returns the worker on the node that is blamed for the attempt's failure; nullptr if that worker
// is lost.
const Worker* blamed_worker(const State& state, const Attempt& attempt) {
    ROLL_CHECK(attempt.nodes.size() == attempt.places.size());
    const auto node = std::ranges::find(attempt.nodes, attempt.blamed);
    if (node == attempt.nodes.end()) return nullptr;
    const auto place = static_cast<std::size_t>(node - attempt.nodes.begin());
    const auto worker = state.workers.find(attempt.places.at(place).worker);
    return worker == state.workers.end() ? nullptr : &worker->second;
}

// Appends faults of `machine` to `beside`: the faults that have the same kind as `fault` (lost
// worker or failed attempt) and happened within kSameTime of it. Returns whether any was appended.
bool add_beside(Machine& machine, const Fault& fault, std::vector<Fault*>& beside) {
    const std::size_t before = beside.size();
    for (Fault& other : machine.faults | std::views::reverse) {
        if (other.at + kSameTime < fault.at) break;
        if (other.lost == fault.lost) beside.push_back(&other);
    }
    return beside.size() > before;
}

// Marks simultaneous faults of one kind as common if they seem to have one cause. Examples are a
// power cut, a network failure, and jobs that fail everywhere. Lost workers count as common if at
// least two machines are affected at once. Failed attempts count as common if they affect at least
// three machines, and if these machines are more than half of the number of workers. Fewer machines
// do not suffice, because attempts may fail on two bad machines at the same time.
void mark_common(State& state, const Fault& fault) {
    std::vector<Fault*> beside;
    std::ptrdiff_t hit = 0;
    for (auto& [name, machine] : state.machines) hit += add_beside(machine, fault, beside);
    const bool most = hit >= 3 && 2 * hit > std::ssize(state.workers);
    if (fault.lost ? hit < 2 : !most) return;
    for (Fault* found : beside) found->common = true;
}

void note(State& state, const std::string& node, const Fault& fault) {
    std::vector<Fault>& faults = state.machines[machine_of(node)].faults;
    if (faults.size() >= kFaultsMax) faults.erase(faults.begin());
    faults.push_back(fault);
    mark_common(state, fault);
}

}  // namespace

void note_fault(State& state, JobId id, Time at) {
    const Attempt& attempt = *state.jobs.at(id).attempt;
    if (attempt.exit_code == kExitRefused) return;
    const Worker* worker = blamed_worker(state, attempt);
    if (worker == nullptr || was_to_go(state, *worker)) return;
    note(state, attempt.blamed, {at, id, attempt.exit_code == kExitUnhealthy});
}

void note_loss(State& state, WorkerId id, Time at) {
    const Worker& worker = state.workers.at(id);
    if (!is_busy(state, id) || was_to_go(state, worker)) return;
    note(state, worker.node, {.at = at, .job = *jobs_on(state, id).begin(), .lost = true});
}

}  // namespace roll::core
