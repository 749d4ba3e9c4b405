// The auditor's model of places: whether they are what a job asks for. Computed over all workers.
#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/facts/machines.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using core::Outcome;

// Checks that the places of an attempt were free and are on different nodes, that the members come
// before the spares, and that each group of members is in its segment.
void Auditor::check_places(const core::AttemptPlaced& e, const spec::Resources& given) const {
    Room free = room([](const Job&) { return true; });
    for (int i = 0; i < std::ssize(e.places); ++i) {
        const core::Place& place = e.places[static_cast<std::size_t>(i)];
        const auto found = free.find(place.worker);
        ROLL_CHECK(found != free.end() && place.spare == (i >= given.nodes));
        ROLL_CHECK(has_time(workers_.at(place.worker), given, now_));
        ROLL_CHECK(std::ssize(place.slots) == given.slots_per_node);
        ROLL_CHECK(std::ssize(place.gpus) == given.gpus_per_node);
        for (int slot : place.slots) ROLL_CHECK(found->second.slots.erase(slot) == 1);
        for (int gpu : place.gpus) {
            int& left = found->second.gpus.at(gpu);
            left -= given.gpu_percent;
            ROLL_CHECK(left >= 0 && place.gpu_percent == given.gpu_percent);
        }
        ROLL_CHECK(place.memory == given.memory && found->second.memory >= given.memory);
        ROLL_CHECK(place.cpus == given.cpus && found->second.cpus >= given.cpus);
        free.erase(found);  // a worker holds at most one member of a gang
        if (given.segment <= 1 || place.spare) continue;
        const core::Place& first = e.places[static_cast<std::size_t>(i - i % given.segment)];
        const std::string& segment = workers_.at(first.worker).segment;
        ROLL_CHECK(!segment.empty() && workers_.at(place.worker).segment == segment);
    }
}
// Returns whether the usable workers of an attempt that failed certainly suffice for the next
// attempt, whichever node is to blame, and nothing else prevents its start.
bool Auditor::spares_suffice(const Job& j) const {
    const spec::Resources& given = j.last_given;
    const bool plain = policy_.accounts.empty() && policy_.users.empty() && !j.spec.deadline &&
                       given.segment <= 1 && !j.held && !j.spec.array &&
                       j.spec.begin.value_or(now_) <= now_;
    if (!plain || given.spares == 0 || j.last_end->outcome != Outcome::Infra) return false;
    const auto usable = [&](WorkerId id) {
        const auto worker = workers_.find(id);
        return worker != workers_.end() && takes_work(worker->second) && !worker->second.quiet &&
               has_time(worker->second, given, now_);
    };
    return std::ranges::count_if(j.last_held, usable) > given.nodes;
}

bool Auditor::fits(const spec::Resources& wanted, const Room& room, Time now) const {
    int fitting = 0;
    std::map<std::string, int> in_segment;
    for (const auto& [id, free] : room) {
        const auto has = [&](const auto& gpu) { return gpu.second >= wanted.gpu_percent; };
        const bool enough = has_time(workers_.at(id), wanted, now) &&
                            std::ssize(free.slots) >= wanted.slots_per_node &&
                            std::ranges::count_if(free.gpus, has) >= wanted.gpus_per_node &&
                            free.memory >= wanted.memory && free.cpus >= wanted.cpus;
        if (!enough) continue;
        ++fitting;
        const std::string& segment = workers_.at(id).segment;
        if (!segment.empty()) ++in_segment[segment];
    }
    if (fitting < wanted.workers()) return false;
    if (wanted.segment <= 1) return true;
    int whole = 0;
    for (const auto& [segment, count] : in_segment) whole += count / wanted.segment;
    return whole * wanted.segment >= wanted.nodes;
}

// Records one fault for a lost worker that ran something, however many jobs it ran.
void Auditor::on(const core::WorkerLost& e) {
    const auto lost = workers_.find(e.worker);
    ROLL_CHECK(lost != workers_.end());
    const auto was_there = [&](const Member& m) { return m.place.worker == e.worker && !m.ended; };
    for (const auto& [id, j] : jobs_) {
        if (!j.run || std::ranges::none_of(j.run->members, was_there)) continue;
        faults_[core::machine_of(lost->second.node)].push_back({now_, id});
        break;
    }
    workers_.erase(lost);
}

// Records faults of the machines of an attempt that ended. An output that cannot be written and a
// lost worker do not count here.
void Auditor::note_faults(const Run& r, JobId id) {
    constexpr int kOutput = 4;
    constexpr int kUnhealthy = 78;
    for (const Member& m : r.members) {
        if (!m.ended || m.ended->outcome != Outcome::Infra) continue;
        const int code = m.ended->exit_code;
        if (code == kOutput || !workers_.contains(m.place.worker)) continue;
        faults_[core::machine_of(m.node)].push_back({now_, id, code == kUnhealthy});
    }
}

// Returns what the members of an attempt used together.
Usage Auditor::sum_of(const std::vector<core::MemberEnded>& ends) {
    Usage used;
    for (const core::MemberEnded& end : ends) {
        used.cpu_ms += end.usage.cpu_ms;
        used.memory_peak = std::max(used.memory_peak, end.usage.memory_peak);
        used.wall_ms = std::max(used.wall_ms, end.usage.wall_ms);
        used.gpu_ms += end.usage.gpu_ms;
        used.disk_read += end.usage.disk_read;
        used.disk_written += end.usage.disk_written;
    }
    return used;
}

// Checks that a check of an excluded machine failed, or that the machine had enough faults, from at
// least two jobs. Also checks that another machine still takes jobs.
void Auditor::on(const core::MachineExcluded& e) {
    ROLL_CHECK(excluded_.insert(e.machine).second && e.until > now_);
    std::set<JobId> jobs;
    int count = 0;
    bool certain = false;
    for (const Fault& fault : faults_[e.machine]) {
        if (fault.at + policy_.bad_nodes.within < now_) continue;
        jobs.insert(fault.job);
        ++count;
        certain |= fault.certain;
    }
    ROLL_CHECK(certain || (jobs.size() >= 2 && count >= policy_.bad_nodes.failures));
    ROLL_CHECK(policy_.bad_nodes.failures > 0);
    ROLL_CHECK(std::ranges::any_of(workers_, [&](const auto& w) { return takes_work(w.second); }));
    faults_[e.machine].clear();
}

bool Auditor::trains_on(WorkerId worker) const {
    return std::ranges::any_of(jobs_, [&](const auto& item) {
        const Job& j = item.second;
        if (!j.run || !j.spec.trains()) return false;
        return std::ranges::any_of(j.run->members, [&](const Member& m) {
            return m.place.worker == worker && !m.ended && !m.place.spare;
        });
    });
}

// Returns whether the job's last attempt could not write its output, which is never retried.
bool Auditor::output_refused(const Job& j) {
    const core::AttemptEnded& end = j.last_end.value();
    return end.outcome == Outcome::App && end.exit_code == core::kExitRefused &&
           j.spec.kind != spec::JobKind::Command &&
           !meaning(j, end.outcome, end.exit_code, j.matched);
}

}  // namespace roll::sim
