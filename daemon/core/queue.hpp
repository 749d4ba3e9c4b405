// The ready jobs in the order in which they may start.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/limits.hpp"

namespace roll::core {

// A place in that order. Who has waited for the policy's `starve_after` comes first, the longest
// first; then who need not borrow; then higher priority; then, with fair share, whose account and
// user have used less of their shares; then the older job. So a job waits at most `starve_after`
// until only those are before it that were ready before it was.
struct Rank {
    bool fresh = true;  // has not waited so long
    Time since{};       // of one that has
    bool borrows = false;
    std::int64_t low_priority = 0;
    std::vector<std::int64_t> use{};  // Limits::rank
    JobId job;
    friend auto operator<=>(const Rank&, const Rank&) = default;
};
class Queue {
  public:
    // `limits` must outlive it; what is added there counts for who comes next.
    Queue(const State& state, Time now, const Limits& limits);

    // The next job to look at.
    std::optional<JobId> next();
    // Leaves out the rest of the last one's group.
    void drop() { last_ = nullptr; }

  private:
    // How far a group has been looked at.
    struct Cursor {
        const Line* line = nullptr;
        std::set<std::pair<Time, JobId>>::const_iterator oldest{};
        std::set<Turn>::const_iterator turn{};
    };
    bool starves(Time since) const { return since + state_.policy.starve_after <= now_; }
    void enter(Cursor* cursor);
    void sort_anew();

    const State& state_;
    Time now_;
    const Limits& limits_;
    std::vector<Cursor> cursors_{};
    std::set<std::pair<Rank, Cursor*>> heads_{};
    Cursor* last_ = nullptr;
};

// Ready jobs in order, all of them.
std::vector<JobId> due_jobs(const State& state, Time now);

}  // namespace roll::core
