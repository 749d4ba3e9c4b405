// Backfill (EASY): the first job that must wait gets a reservation. A later job may start only
// where it cannot delay the first job, assuming that every job uses its whole time.
//
// The reservation is the earliest time at which the first job fits if each running attempt ends at
// its limit. A later job may take a place if it ends before that time, or if the first job then
// fits beside it. If the time is unknown because attempts without a limit are in the way, the later
// job may only take workers that the first job cannot use at all.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/room.hpp"

namespace roll::core {

// The time that a backfilled attempt is assumed to take beyond its limit: to start, and to save and
// stop.
inline constexpr auto kBackfillSlack = std::chrono::seconds(30);

// The places that an attempt holds, and the time until which it holds them (nullopt: unknown).
struct Holder {
    std::optional<Time> until;
    std::vector<Place> places;
};

class Reservation {
  public:
    // `free` is the capacity that is free now, `all` the whole capacity of the workers that the job
    // may use. `held` lists the holders of the difference, possibly also on other workers.
    Reservation(const spec::Resources& wanted, const Room& free, const Room& all,
                std::vector<Holder> held);

    // Returns the latest start of the job; nullopt if unknown.
    std::optional<Time> at() const { return at_; }

    // Returns places in `free` for a later job that starts now; empty if it would delay the first
    // job.
    std::vector<Place> places_beside(const spec::Resources& later, const Room& free, Time now,
                                     std::set<WorkerId> avoid);
    // Records that a later job was given `places`.
    void add(const spec::Resources& later, const std::vector<Place>& places, Time now);

  private:
    bool ends_before(const spec::Resources& later, Time now) const;
    bool costs(WorkerId worker, const spec::Resources& later) const;
    void count_fitting();

    spec::Resources wanted_;
    std::optional<Time> at_{};
    Room room_;  // free capacity at that time
    std::set<WorkerId> fitting_{};
};

// Returns the latest end of an attempt, without the time for stopping; nullopt if it has no
// limit. A stopping attempt has no known end time.
std::optional<Time> latest_end(const Job& job, Time now);
// Like latest_end() above, for an attempt with this limit that began at `began`.
std::optional<Time> latest_end(const spec::JobSpec& spec, std::chrono::seconds limit, Time began,
                               Time now);

}  // namespace roll::core
