#include "daemon/core/machines.hpp"

#include "daemon/core/allocations.hpp"

namespace roll::core {
namespace {

constexpr std::size_t kFaultsMax = 64;

// Its worker was asked to end, or its allocation is.
bool was_to_go(const State& state, const std::string& node) {
    const auto sessions = state.sessions.find(node);
    if (sessions == state.sessions.end()) return false;
    const auto newest = state.index.by_session.find(sessions->second.back());
    if (newest == state.index.by_session.end()) return false;
    const Worker& worker = state.workers.at(newest->second);
    const auto a = state.allocations.find(worker.allocation);
    return worker.draining || (a != state.allocations.end() && a->second.releasing);
}

}  // namespace

std::string machine_of(const std::string& node) {
    const std::size_t dot = node.rfind(".a");
    if (dot == std::string::npos || dot + 2 == node.size()) return node;
    const bool number = node.find_first_not_of("0123456789", dot + 2) == std::string::npos;
    return number ? node.substr(0, dot) : node;
}

bool is_excluded(const State& state, const Worker& worker) {
    if (state.machines.empty()) return false;
    const auto machine = state.machines.find(machine_of(worker.node));
    return machine != state.machines.end() && machine->second.excluded_until.has_value();
}

void note_fault(State& state, JobId id, Time at) {
    const Attempt& attempt = *state.jobs.at(id).attempt;
    if (attempt.blamed.empty() || was_to_go(state, attempt.blamed)) return;
    std::vector<Fault>& faults = state.machines[machine_of(attempt.blamed)].faults;
    if (faults.size() >= kFaultsMax) faults.erase(faults.begin());
    faults.push_back({at, id, attempt.exit_code == kExitUnhealthy});
}

}  // namespace roll::core
