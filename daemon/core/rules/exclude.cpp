// Machines that keep failing are left out for a while: after the policy's number of infra failures
// within its time, of two jobs at least, for a single job may be to blame itself; at once where a
// check of the machine failed. The last machine that takes jobs is never left out.
#include <algorithm>
#include <set>

#include "daemon/core/allocations.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Why a machine is to be left out; empty: it is not.
std::string fault_of(const Machine& machine, const spec::BadNodes& rule, Time now) {
    if (rule.failures == 0) return {};
    int count = 0;
    std::set<JobId> jobs;
    bool certain = false;
    for (const Fault& fault : machine.faults) {
        if (fault.at + rule.within < now) continue;
        ++count;
        jobs.insert(fault.job);
        certain |= fault.certain;
    }
    if (certain) return "its check failed";
    if (count < rule.failures || jobs.size() < 2) return {};
    return std::to_string(count) + " attempts of " + std::to_string(jobs.size()) +
           " jobs failed on it";
}

bool others_work(const State& state, const std::string& machine,
                 const std::set<std::string>& gone) {
    return std::ranges::any_of(state.workers, [&](const auto& item) {
        const std::string other = machine_of(item.second.node);
        return other != machine && !gone.contains(other) && takes_work(state, item.second);
    });
}

}  // namespace

Events exclude_machines(const State& state, Time now) {
    Events events;
    std::set<std::string> gone;
    for (const auto& [name, machine] : state.machines) {
        if (machine.excluded_until) {
            if (*machine.excluded_until <= now) events.push_back(MachineForgiven{name});
            continue;
        }
        const std::string reason = fault_of(machine, state.policy.bad_nodes, now);
        if (reason.empty() || !others_work(state, name, gone)) continue;
        gone.insert(name);
        events.push_back(
            MachineExcluded{name, now + state.policy.bad_nodes.exclude_for, reason, now});
    }
    return events;
}

}  // namespace roll::core
