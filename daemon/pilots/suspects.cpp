#include "daemon/pilots/suspects.hpp"

#include <algorithm>
#include <utility>

#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/facts/machines.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::pilots {
namespace {

// Returns the silent workers that run in Slurm allocations and hold a member of a training job.
// Usually there are none.
std::set<WorkerId> held_by_silent(const core::State& state, const std::set<WorkerId>& silent) {
    std::set<WorkerId> held;
    for (const WorkerId id : silent) {
        const auto worker = state.workers.find(id);
        if (worker == state.workers.end() || worker->second.allocation == AllocationId{} ||
            !slurm::is_node_name(core::machine_of(worker->second.node)))
            continue;
        const auto trains_there = [&](JobId job_id) {
            const core::Job& job = state.jobs.at(job_id);
            return job.spec.trains() && !job.attempt->place_on(id)->ended;
        };
        if (std::ranges::any_of(core::jobs_on(state, id), trains_there)) held.insert(id);
    }
    return held;
}

}  // namespace

void Suspects::watch(const core::State& state, const std::set<WorkerId>& silent, Instant now) {
    const std::set<WorkerId> held = held_by_silent(state, silent);
    std::erase_if(all_, [&](const auto& item) { return !held.contains(item.first); });
    for (const WorkerId id : held) {
        const core::Worker& worker = state.workers.at(id);
        all_.try_emplace(
            id, Suspect{core::machine_of(worker.node), worker.allocation, now + patience_});
    }
}

std::vector<std::string> Suspects::question(Instant now) {
    std::set<std::string> nodes;
    if (asked_ && now < *asked_ + spacing_) return {};
    for (auto& [id, suspect] : all_) {
        if (suspect.proven || now >= suspect.until) continue;
        suspect.asked = true;
        nodes.insert(suspect.node);
    }
    if (!nodes.empty()) asked_ = now;
    return {nodes.begin(), nodes.end()};
}

std::optional<Instant> Suspects::next_question() const {
    const Instant next = asked_ ? *asked_ + spacing_ : Instant{0};
    const bool any = std::ranges::any_of(
        all_, [&](const auto& item) { return !item.second.proven && next < item.second.until; });
    return any ? std::optional(next) : std::nullopt;
}

void Suspects::note(const std::vector<slurm::NodeRow>& rows) {
    for (auto& [id, suspect] : all_) {
        const auto row = std::ranges::find(rows, suspect.node, &slurm::NodeRow::name);
        if (!suspect.asked || row == rows.end()) continue;
        doubt_ |= row->down && !suspect.down;
        suspect.down = row->down;
    }
}

bool Suspects::take_doubt() { return std::exchange(doubt_, false); }

std::optional<Instant> Suspects::unproven_until() const {
    std::optional<Instant> latest;
    for (const auto& [id, suspect] : all_) {
        if (suspect.down && !suspect.proven)
            latest = std::max(latest, std::optional(suspect.until));
    }
    return latest;
}

void Suspects::note(AllocationId allocation, bool lost) {
    for (auto& [id, suspect] : all_) {
        if (suspect.allocation == allocation) suspect.proven = suspect.down && lost;
    }
}

std::vector<core::Input> Suspects::gone() const {
    std::vector<core::Input> inputs;
    for (const auto& [id, suspect] : all_) {
        if (!suspect.proven) continue;
        inputs.push_back(core::NodeDown{
            id, "Slurm says that node " + suspect.node + " is down, and its worker is silent"});
    }
    return inputs;
}

}  // namespace roll::pilots
