#include "daemon/core/placement/queue.hpp"

#include "common/check.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::core {

Queue::Queue(const State& state, Time now, const Limits& limits)
    : state_(state),
      now_(now),
      limits_(limits) {
    for (const auto& [group, line] : state.index.ready) {
        ROLL_CHECK(line.by_age.size() == line.by_priority.size());
        cursors_.push_back({&line, line.by_age.begin(), line.by_priority.begin()});
    }
    for (Cursor& cursor : cursors_) enter(&cursor);
}

// Inserts the group's next job into heads_. The jobs of a group that have waited for `starve_after`
// come first, the oldest first. The other jobs follow by priority.
void Queue::enter(Cursor* cursor) {
    const ReadyJobs& line = *cursor->line;
    if (cursor->oldest != line.by_age.end() && starves(cursor->oldest->first)) {
        const auto [since, id] = *cursor->oldest++;
        heads_.insert({{false, since, false, 0, {}, id}, cursor});
        return;
    }
    for (; cursor->turn != line.by_priority.end(); ++cursor->turn) {
        const auto [priority, id] = *cursor->turn;
        const Job& job = state_.jobs.at(id);
        if (starves(ready_since(state_, job, state_.index))) continue;
        heads_.insert({{true, Time{}, limits_.would_borrow(job), -std::int64_t{priority},
                        limits_.rank(job), id},
                       cursor});
        ++cursor->turn;
        return;
    }
}

// Sorts heads_ again, because a job that was started has changed shares and quotas.
void Queue::sort_anew() {
    if (state_.policy.half_life.count() == 0 && state_.policy.accounts.empty()) return;
    for (auto heads = std::exchange(heads_, {}); !heads.empty();) {
        auto [rank, cursor] = heads.extract(heads.begin()).value();
        const Job& job = state_.jobs.at(rank.job);
        if (rank.fresh) {
            rank.use = limits_.rank(job);
            rank.borrows = limits_.would_borrow(job);
        }
        heads_.insert({std::move(rank), cursor});
    }
}

std::optional<JobId> Queue::next() {
    // If the caller did not drop the group of the last returned job, the group's next job waits for
    // its turn among the other groups.
    if (last_ != nullptr) {
        enter(last_);
        sort_anew();
    }
    last_ = nullptr;
    if (heads_.empty()) return std::nullopt;
    const auto [rank, cursor] = heads_.extract(heads_.begin()).value();
    last_ = cursor;
    return rank.job;
}

}  // namespace roll::core
