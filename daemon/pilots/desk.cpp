#include "daemon/pilots/desk.hpp"

#include <algorithm>

#include "common/overload.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::pilots {
namespace {

using slurm::Phase;
using slurm::QueueRow;

std::optional<Time> wall(const std::optional<std::int64_t>& seconds) {
    if (!seconds || *seconds <= 0) return std::nullopt;
    return Time{std::chrono::seconds(*seconds)};
}

std::optional<core::SlurmPhase> phase_for_core(Phase phase) {
    switch (phase) {
        case Phase::Pending: return core::SlurmPhase::Pending;
        case Phase::Running: return core::SlurmPhase::Running;
        case Phase::Ended: return core::SlurmPhase::Ended;
        case Phase::Ending:
        case Phase::Unknown: return std::nullopt;
    }
    return std::nullopt;
}

// Returns the row of the request `key`, or nullptr if it has none. If the request's Slurm job id
// `slurm_job` is known, only the row of this job counts. If the id is unknown and the request has
// several rows, prefers the row of a job that has not ended.
const QueueRow* row_for(const std::vector<QueueRow>& rows, const std::string& key,
                        const std::string& slurm_job) {
    const QueueRow* best = nullptr;
    for (const QueueRow& row : rows) {
        if (slurm::key_of(row.comment) != key) continue;
        if (!slurm_job.empty() && row.id != slurm_job) continue;
        if (best == nullptr || (best->phase == Phase::Ended && row.phase != Phase::Ended))
            best = &row;
    }
    return best;
}

// Returns whether the job has lost a node: it ended because of the node, was requeued, or continues
// with fewer nodes (--no-kill).
bool has_lost_a_node(const QueueRow& row, const spec::PilotQueue& queue) {
    return slurm::lost_its_node(row.state) || row.phase == Phase::Pending ||
           (row.phase == Phase::Running && row.nodes < queue.nodes);
}

core::OrderSeen seen(AllocationId id, const QueueRow& row, core::SlurmPhase phase) {
    core::OrderSeen input{id, row.id, phase, "", std::nullopt, std::nullopt};
    input.reason = phase == core::SlurmPhase::Ended ? "Slurm: " + row.state : row.reason;
    if (phase == core::SlurmPhase::Running) {
        input.began = wall(row.start);
        input.ends = wall(row.end);
    }
    return input;
}

}  // namespace

std::string Desk::key_of(const core::State& state, AllocationId id) const {
    return cluster_ + "." + core::order_name(id, state.allocations.at(id));
}

std::string Desk::hearsay(AllocationId id) const {
    const auto found = hearsay_.find(id);
    return found == hearsay_.end() ? "" : found->second;
}

// Returns whether the request may have been sent to Slurm. A request that an earlier rolld made may
// have been sent by that rolld.
bool Desk::was_sent(const core::State& state, AllocationId id) const {
    return sent_.contains(id) || state.allocations.at(id).incarnation != state.incarnation;
}

bool Desk::may_send(const core::State& state, AllocationId id, Instant now) const {
    if (!was_sent(state, id)) return true;
    const auto sent = sent_.find(id);
    const Instant since = sent == sent_.end() ? began_ : sent->second;
    const auto absent = absent_.find(id);
    return absent != absent_.end() && absent->second.polls > 0 &&
           answered_ >= since + rules_.unsure && now >= since + rules_.unsure;
}

bool Desk::watches(const core::State& state) const {
    const bool doubts = !answered_ || *answered_ < doubt_until_;
    if ((doubts && !state.queues.empty()) || !strays_.empty()) return true;
    return std::ranges::any_of(state.allocations, [&](const auto& item) {
        return item.second.phase != core::AllocationPhase::Ordered || was_sent(state, item.first);
    });
}

// Returns the time of the next poll. Usually a poll starts rules_.poll after the previous one.
// After hurry(), it starts sooner, but in any period of 1.5 * rules_.poll at most two polls start.
// While squeue must still confirm that a node is down, this maximum does not apply.
Instant Desk::next_poll() const {
    if (!asked_) return Instant{0};
    const Instant soon = *asked_ + std::min(rules_.hurried, rules_.poll);
    if (soon < suspects_.unproven_until()) return soon;
    const Instant third = asked_before_ ? *asked_before_ + rules_.poll * 3 / 2 : Instant{0};
    const Instant usual = std::max(*asked_ + rules_.poll, third);
    const Instant hurried = std::max(soon, third);
    return hurried < hurry_until_ ? hurried : usual;
}

std::optional<Errand> Desk::cancel(const std::string& job, const std::string& key, Instant now) {
    const auto before = cancelled_.find(job);
    if (before != cancelled_.end() && now - before->second < rules_.again) return std::nullopt;
    cancelled_[job] = now;
    return Cancel{job, key};
}

std::optional<Errand> Desk::give_back(const core::State& state, AllocationId id, Instant now) {
    const std::string& job = state.allocations.at(id).slurm_job;
    // no Slurm job of the request is known, so there is nothing to cancel
    if (job.empty()) return std::nullopt;
    return cancel(job, key_of(state, id), now);
}

// Adds the machines that rolld has excluded to --exclude in the queue's arguments; otherwise Slurm
// might allocate them again. Adds only machines on which workers of allocations have run, because
// Slurm refuses node names that it does not know.
static void leave_out(const core::State& state, std::vector<std::string>& sbatch_args) {
    std::string machines;
    for (const auto& [name, machine] : state.machines) {
        const auto pilot = state.sessions.lower_bound(name + ".a");
        const bool known = pilot != state.sessions.end() && pilot->first.starts_with(name + ".a");
        if (machine.excluded_until && known) machines += (machines.empty() ? "" : ",") + name;
    }
    if (machines.empty()) return;
    const std::string option = "--exclude=";
    const auto own = std::ranges::find_if(
        sbatch_args, [&](const std::string& argument) { return argument.starts_with(option); });
    if (own == sbatch_args.end()) {
        sbatch_args.push_back(option + machines);
    } else {
        *own += "," + machines;
    }
}

std::optional<Errand> Desk::next(const core::State& state, Instant now) {
    if (busy_) return std::nullopt;
    std::optional<Errand> errand;
    for (const core::SlurmAction& action : core::slurm_actions(state)) {
        if (const auto* back = std::get_if<core::GiveBackAllocation>(&action))
            errand = give_back(state, back->allocation, now);
        const auto* order = std::get_if<core::OrderAllocation>(&action);
        if (order != nullptr && may_send(state, order->allocation, now)) {
            const AllocationId id = order->allocation;
            sent_[id] = now;
            absent_.erase(id);
            const auto& queue = state.queues.at(state.allocations.at(id).queue);
            errand = Submit{id, key_of(state, id), queue.spec};
            leave_out(state, std::get<Submit>(*errand).queue.sbatch_args);
        }
        if (errand) break;
    }
    for (const auto& [job, key] : strays_) {
        if (!errand) errand = cancel(job, key, now);
    }
    if (!errand) errand = look_around(state, now);
    busy_ = errand.has_value();
    return errand;
}

// Returns the errand (Slurm command) that polls squeue or asks scontrol about nodes, if one is due.
// Polls squeue at once if scontrol has reported a node down, because squeue must confirm it.
std::optional<Errand> Desk::look_around(const core::State& state, Instant now) {
    if (suspects_.take_doubt() || (watches(state) && now >= next_poll())) {
        asked_before_ = std::exchange(asked_, now);
        return Poll{};
    }
    auto nodes = suspects_.question(now);
    if (nodes.empty()) return std::nullopt;
    return AskNodes{std::move(nodes)};
}

std::vector<core::Input> Desk::gone(const core::State& state, const std::set<WorkerId>& silent,
                                    Instant now) {
    suspects_.watch(state, silent, now);
    return suspects_.gone();
}

std::optional<Instant> Desk::wakeup(const core::State& state) const {
    if (busy_ || !watches(state)) return std::nullopt;
    const auto question = suspects_.next_question();
    return question ? std::min(*question, next_poll()) : next_poll();
}

std::vector<core::Input> Desk::withdraw(const core::State& state) const {
    std::vector<core::Input> inputs;
    for (const auto& [id, a] : state.allocations) {
        if (a.releasing && a.phase == core::AllocationPhase::Ordered && !was_sent(state, id))
            inputs.push_back(core::OrderAnswered{
                id, false, "", "rolld withdrew the request before it was sent to Slurm"});
    }
    return inputs;
}

std::vector<core::Input> Desk::take(const Outcome& outcome, const core::State& state, Instant now) {
    busy_ = false;
    std::vector<core::Input> inputs;
    std::visit(
        Overload{[&](const Submitted& done) {
                     trouble_ = done.result == slurm::Submission::Accepted ? "" : done.reason;
                     if (done.result == slurm::Submission::Unknown) {
                         // It is unknown whether Slurm has queued the job, and when; use the
                         // latest possible time, which is now.
                         sent_[done.allocation] = now;
                         doubt_until_ = now + rules_.doubt;
                         return;
                     }
                     const bool accepted = done.result == slurm::Submission::Accepted;
                     inputs.push_back(core::OrderAnswered{done.allocation, accepted, done.slurm_job,
                                                          "sbatch: " + done.reason});
                 },
                 [&](const Polled& polled) {
                     trouble_ = polled.rows ? "" : polled.rows.error().message;
                     if (!polled.rows) return;
                     answered_ = asked_;
                     inputs = look(*polled.rows, state, now);
                 },
                 [&](const Cancelled& done) { trouble_ = done.trouble; },
                 [&](const NodesTold& told) {
                     trouble_ = told.rows ? "" : told.rows.error().message;
                     if (told.rows) suspects_.note(*told.rows);
                 }},
        outcome);
    return inputs;
}

bool Desk::only_gone_are_left(const core::State& state) const {
    return !state.workers.empty() && std::ranges::all_of(state.workers, [&](const auto& item) {
        return over_.contains(item.second.allocation);
    });
}

// Records that squeue does not show the job. The job counts as gone only after several such polls,
// because the next poll may show it.
void Desk::note_absent(AllocationId id, Instant now, std::vector<core::Input>& inputs) {
    Absence& absence = absent_.try_emplace(id, Absence{*answered_, 0}).first->second;
    ++absence.polls;
    if (absence.polls >= rules_.missing_polls && now - absence.since >= rules_.missing) {
        over_.insert(id);
        inputs.push_back(core::OrderMissing{id, "Slurm no longer knows the allocation"});
    }
}

std::vector<core::Input> Desk::look(const std::vector<QueueRow>& rows, const core::State& state,
                                    Instant now) {
    std::vector<core::Input> inputs;
    std::erase_if(absent_,
                  [&](const auto& item) { return !state.allocations.contains(item.first); });
    std::erase_if(sent_, [&](const auto& item) { return !state.allocations.contains(item.first); });
    hearsay_.clear();
    over_.clear();
    for (const auto& [id, a] : state.allocations) {
        const QueueRow* row = row_for(rows, key_of(state, id), a.slurm_job);
        const bool ordered = a.phase == core::AllocationPhase::Ordered;
        if (row == nullptr && ordered && !a.releasing) {
            if (was_sent(state, id))
                ++absent_.try_emplace(id, Absence{*answered_, 0}).first->second.polls;
        } else if (row == nullptr) {
            if (!ordered || was_sent(state, id)) note_absent(id, now, inputs);
        } else {
            absent_.erase(id);
            if (row->phase == Phase::Ended) over_.insert(id);
            suspects_.note(id, has_lost_a_node(*row, state.queues.at(a.queue).spec));
            hearsay_[id] =
                row->state +
                (row->reason.empty() || row->reason == "None" ? "" : " (" + row->reason + ")");
            if (const auto phase = phase_for_core(row->phase))
                inputs.push_back(seen(id, *row, *phase));
        }
    }
    find_strays(rows, state);
    return inputs;
}

// Finds jobs in Slurm that have a key of this rolld but belong to no allocation of State. Such a
// job exists if a request was sent twice, or if Slurm queued the request after rolld had withdrawn
// it.
void Desk::find_strays(const std::vector<QueueRow>& rows, const core::State& state) {
    std::map<std::string, std::string> wanted;  // Slurm job id, by request key
    for (const auto& [id, a] : state.allocations) {
        const std::string key = key_of(state, id);
        const QueueRow* row = row_for(rows, key, a.slurm_job);
        wanted[key] = row == nullptr ? a.slurm_job : row->id;
    }
    strays_.clear();
    for (const QueueRow& row : rows) {
        const std::string key = slurm::key_of(row.comment);
        if (!key.starts_with(cluster_ + ".") || row.phase == Phase::Ended) continue;
        const auto found = wanted.find(key);
        if (found == wanted.end() || found->second != row.id) strays_[row.id] = key;
    }
    std::erase_if(cancelled_, [&](const auto& item) {
        return std::ranges::none_of(rows,
                                    [&](const QueueRow& row) { return row.id == item.first; });
    });
}

}  // namespace roll::pilots
