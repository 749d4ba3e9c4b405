#include "daemon/core/facts/machines.hpp"

#include <algorithm>
#include <set>

namespace roll::core {
namespace {

// Returns the first job of the job's array, or the job itself if it is in no array. As a result,
// all jobs of an array count as one job.
JobId whole(const State& state, JobId id) {
    const auto job = state.jobs.find(id);
    return job == state.jobs.end() || job->second.array == JobId{} ? id : job->second.array;
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

std::string fault_of(const State& state, const Machine& machine, Time since) {
    const spec::BadNodes& rule = state.policy.bad_nodes;
    if (rule.failures == 0) return {};
    int count = 0;
    std::set<JobId> jobs;
    for (const Fault& fault : machine.faults) {
        if (fault.at < since) continue;
        if (fault.certain) return "its check failed";
        if (fault.common) continue;
        ++count;
        jobs.insert(whole(state, fault.job));
    }
    if (count < rule.failures || jobs.size() < 2) return {};
    return std::to_string(count) + " faults while the node ran " + std::to_string(jobs.size()) +
           " jobs";
}

bool was_innocent(const State& state, const Machine& machine) {
    return std::ranges::any_of(machine.faults, &Fault::common) &&
           fault_of(state, machine, Time::min()).empty();
}

}  // namespace roll::core
