// Backfill (EASY): the first job that must wait has a reservation, and a later job may start only
// where it cannot move that back, every job taking its whole time.
//
// The reservation is the earliest instant at which the job fits if each running attempt ends at its
// limit. A later job may take a place if it ends before that instant, or if at that instant the
// first job fits beside it. Where it cannot be told because attempts without a limit are in the
// way, it may take only workers that the first job could not use at all.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/room.hpp"

namespace roll::core {

// A backfilled attempt is given this beyond its limit: to come up, and to save and stop.
inline constexpr auto kBackfillSlack = std::chrono::seconds(30);

// Who holds places, and until when; none: it cannot be told.
struct Holder {
    std::optional<Time> until;
    std::vector<Place> places;
};

class Reservation {
  public:
    // `free` is what is free now, `all` what the workers have that the job may go to, `held` who
    // holds the difference (of other workers, too).
    Reservation(const spec::Resources& wanted, const Room& free, const Room& all,
                std::vector<Holder> held);

    // When the job starts at the latest; none: it cannot be told.
    std::optional<Time> at() const { return at_; }

    // Places in `free` for a later job that starts now; none: it would move the first one back.
    std::vector<Place> places_beside(const spec::Resources& later, const Room& free, Time now,
                                     std::set<WorkerId> avoid);
    // It has been given them.
    void add(const spec::Resources& later, const std::vector<Place>& places, Time now);

  private:
    bool ends_before(const spec::Resources& later, Time now) const;
    bool costs(WorkerId worker, const spec::Resources& later) const;
    void count_fitting();

    spec::Resources wanted_;
    std::optional<Time> at_{};
    Room room_;  // what is free then
    std::set<WorkerId> fitting_{};
};

// When an attempt ends at the latest, its stop not counted; none: it has no limit. That it stops
// already tells no instant.
std::optional<Time> latest_end(const Job& job, Time now);
// The same of one with this limit that began then.
std::optional<Time> latest_end(const spec::JobSpec& spec, std::chrono::seconds limit, Time began,
                               Time now);

}  // namespace roll::core
