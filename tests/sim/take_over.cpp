// rolld --take-over in a world: rolld's machine is gone for good, and another machine starts with a
// copy of its ledger (docs/leases.md, rules 17 and 19). The new rolld does not know the events
// after the copy. Answers of the older rolld may still arrive, and its attempts may still run.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

constexpr int kStillness = 16;  // seconds for which the beacon must be unchanged before a claim
constexpr int kClaimWait = 5;   // seconds from the claim until it is read back

void World::take_over() {
    const bool seen =
        engine_ && !beacon_.empty() && beacon_.back().incarnation == engine_->state().incarnation;
    if (stored_ || !seen) return;
    die();
    forget_after_copy();
    reign_ = beacon_.back().incarnation + 1;
    takes_over_ = true;
    claimed_ = false;
    down_until_ = second_ + kStillness + random_.between(0, 60);
    ++totals_.taken_over;
}

// Drops the events of the last few commits, which the copy lacks.
void World::forget_after_copy() {
    std::size_t end = ledger_.size();
    for (int commits = random_.between(0, 30); commits > 0; --commits) {
        std::size_t begin = end - 1;
        while (begin > 0 && ledger_times_[begin - 1] == ledger_times_[end - 1]) --begin;
        if (begin == 0) break;
        end = begin;
    }
    ledger_.erase(ledger_.begin() + static_cast<std::ptrdiff_t>(end), ledger_.end());
    ledger_times_.resize(end);
    synced_ = std::min(synced_, end);
    audited_ = noted_ = end;
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    auditor_ = auditor_.of_copy(ledger_, ledger_times_, state);
    std::erase_if(known_, [&](const auto& item) {
        const auto job = state.jobs.find(item.second);
        return job == state.jobs.end() || job->second.key != item.first;
    });
}

Auditor Auditor::of_copy(std::span<const core::Event> events, std::span<const Time> times,
                         const core::State& state) const {
    Auditor copy;
    copy.written_ = copy.forgotten_ = written_;
    copy.deleted_ = deleted_;
    for (std::size_t i = 0; i < events.size(); ++i) copy.observe(events[i], times[i]);
    ++copy.turn_;
    for (const auto& [key, id] : acknowledged_) {
        const auto job = state.jobs.find(id);
        if (job != state.jobs.end() && job->second.key == key) copy.acknowledged_[key] = id;
    }
    return copy;
}

// Claims the beacon. Returns false if the claim was just written or cannot be written; rolld then
// tries again.
bool World::claims() {
    if (claimed_) return true;
    claimed_ = second_ >= volume_lost_until_;
    if (claimed_) beacon_.push_back({second_, reign_});
    down_until_ = second_ + kClaimWait;
    return false;
}

}  // namespace roll::sim
