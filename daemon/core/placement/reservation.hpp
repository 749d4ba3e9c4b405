// Backfill (EASY): the first job that must wait gets a reservation. A later job may start only
// where it cannot delay the first job, assuming that every job uses its whole time limit.
//
// The reserved time is the earliest time at which the first job fits, if each running attempt ends
// at its time limit. A later job may start now if it ends before the reserved time, or if its
// resources still leave room for the first job at that time. The reserved time is unknown if
// attempts without a time limit hold resources that the first job needs. In this case, a later job
// may take only workers that the first job cannot use at all.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/placement/capacity.hpp"

namespace roll::core {

// Assumed time that a backfilled attempt needs to start, save and stop, in addition to its time
// limit.
inline constexpr auto kBackfillSlack = std::chrono::seconds(30);

// The places that an attempt holds. `until` is the time at which the attempt releases the places;
// nullopt if that time is unknown.
struct Holder {
    std::optional<Time> until;
    std::vector<Place> places;
};

class Reservation {
  public:
    // `wanted` are the resources of the first job in the queue that must wait. `all` is the whole
    // capacity of the workers that the job may use, and `free` is the part that is free now. `held`
    // lists the attempts that hold the other part; these attempts may also hold places on workers
    // that are not in `all`.
    Reservation(const spec::Resources& wanted, const Capacity& free, const Capacity& all,
                std::vector<Holder> held);

    // Returns the reserved time: the first job starts at this time or earlier. nullopt if the time
    // is unknown.
    std::optional<Time> at() const { return at_; }

    // Returns places in `free` for a job that starts now, although it is behind the first job in
    // the queue. Empty if the job does not fit or would delay the first job.
    std::vector<Place> places_beside(const spec::Resources& later, const Capacity& free, Time now,
                                     std::set<WorkerId> avoid);
    // Records that a job behind the first job was given `places`.
    void add(const spec::Resources& later, const std::vector<Place>& places, Time now);

  private:
    bool ends_before(const spec::Resources& later, Time now) const;
    bool costs(WorkerId worker, const spec::Resources& later) const;
    void count_fitting();

    spec::Resources wanted_;
    std::optional<Time> at_{};
    Capacity capacity_;  // free capacity at the time at_
    std::set<WorkerId> fitting_{};
};

// Returns the latest time at which the job's attempt ends, without the time that stopping takes.
// Returns nullopt if the attempt has no time limit or is already stopping.
std::optional<Time> latest_end(const Job& job, Time now);
// Like latest_end() above, for an attempt with the time limit `limit` that began at `began`.
std::optional<Time> latest_end(const spec::JobSpec& spec, std::chrono::seconds limit, Time began,
                               Time now);

}  // namespace roll::core
