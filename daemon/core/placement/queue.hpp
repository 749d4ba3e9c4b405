// Visits the ready jobs in the order in which they may start.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/placement/limits.hpp"

namespace roll::core {

// Sort key of ready jobs. The criteria are, from the most to the least important:
// - jobs that have waited for the policy's `starve_after`, the oldest first;
// - jobs that fit into their accounts' own quotas (they do not borrow);
// - higher priority;
// - with fair share, less use in proportion to the share (Limits::rank);
// - the older job.
// A job that has waited for `starve_after` therefore comes before all jobs that became ready later.
struct QueueOrder {
    bool fresh = true;  // true if the job has waited for less than `starve_after`
    // time since which the job is ready, if it has waited for `starve_after`; otherwise unset
    Time since{};
    bool borrows = false;
    std::int64_t low_priority = 0;
    std::vector<std::int64_t> use{};  // sort key of fair share, see Limits::rank
    JobId job;
    friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};
class Queue {
  public:
    // `limits` must outlive this queue. Jobs that the caller adds to `limits` affect the order.
    Queue(const State& state, Time now, const Limits& limits);

    // Returns the next job to try; nullopt at the end.
    std::optional<JobId> next();
    // Skips the remaining jobs in the group of the job that next() returned last.
    void drop() { last_ = nullptr; }

  private:
    // Position of the next job within a group.
    struct Cursor {
        const ReadyJobs* line = nullptr;
        std::set<std::pair<Time, JobId>>::const_iterator oldest{};
        std::set<QueueKey>::const_iterator turn{};
    };
    bool starves(Time since) const { return since + state_.policy.starve_after <= now_; }
    void enter(Cursor* cursor);
    void sort_anew();

    const State& state_;
    Time now_;
    const Limits& limits_;
    std::vector<Cursor> cursors_{};
    std::set<std::pair<QueueOrder, Cursor*>> heads_{};
    Cursor* last_ = nullptr;
};

}  // namespace roll::core
