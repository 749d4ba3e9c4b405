// rolld --take-over in a world: its machine is gone for good, and another one starts with a copy of
// its ledger (docs/leases.md, rules 17 and 19). What came after the copy is forgotten, but not what
// the older one gave out: its answers are on their way yet, and its attempts run.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

constexpr int kStillness = 16;  // of the beacon, before it may be claimed
constexpr int kClaimWait = 5;   // until the claim is read back

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

// The copy was made a few commits ago.
void World::forget_after_copy() {
    std::size_t end = ledger_.size();
    for (int commits = random_.between(0, 30); commits > 0; --commits) {
        std::size_t begin = end - 1;
        while (begin > 0 && ledger_times_[begin - 1] == ledger_times_[end - 1]) --begin;
        if (begin == 0) break;
        end = begin;
    }
    ledger_.resize(end);
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

// False: the claim was just written, or cannot be, and rolld is to try again.
bool World::claims() {
    if (claimed_) return true;
    claimed_ = second_ >= volume_lost_until_;
    if (claimed_) beacon_.push_back({second_, reign_});
    down_until_ = second_ + kClaimWait;
    return false;
}

}  // namespace roll::sim
