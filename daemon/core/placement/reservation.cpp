#include "daemon/core/placement/reservation.hpp"

#include <algorithm>

#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/gpu_affinity.hpp"

namespace roll::core {

std::optional<Time> latest_end(const spec::JobSpec& spec, std::chrono::seconds limit, Time began,
                               Time now) {
    std::optional<Time> end = spec.deadline;
    if (limit.count() > 0) end = std::min(end.value_or(Time::max()), began + limit);
    return end ? std::optional(std::max(*end, now)) : std::nullopt;
}

std::optional<Time> latest_end(const Job& job, Time now) {
    const Attempt& attempt = *job.attempt;
    return latest_end(job.spec, job.resources().time,
                      attempt.started_at.value_or(attempt.placed_at), now);
}

Reservation::Reservation(const spec::Resources& wanted, const Capacity& free, const Capacity& all,
                         std::vector<Holder> held)
    : wanted_(wanted),
      capacity_(free) {
    std::erase_if(held, [](const Holder& holder) { return !holder.until; });
    std::ranges::stable_sort(held, {}, &Holder::until);
    for (const auto& [id, slots] : capacity_) {
        if (fits(wanted_, slots)) fitting_.insert(id);
    }
    const auto enough = [&] {
        if (std::ssize(fitting_) < wanted_.workers()) return false;
        return wanted_.segment <= 1 || !find_places(wanted_, capacity_).empty();
    };
    for (auto holder = held.begin(); holder != held.end();) {
        const Time until = *holder->until;
        for (; holder != held.end() && *holder->until == until; ++holder) {
            give(capacity_, holder->places);
            for (const Place& place : holder->places) {
                const auto found = capacity_.find(place.worker);
                if (found != capacity_.end() && fits(wanted_, found->second))
                    fitting_.insert(place.worker);
            }
        }
        if (!enough()) continue;
        at_ = until;
        return;
    }
    capacity_ = all;
    count_fitting();
}

void Reservation::count_fitting() {
    fitting_.clear();
    for (const auto& [id, slots] : capacity_) {
        if (fits(wanted_, slots)) fitting_.insert(id);
    }
}

bool Reservation::ends_before(const spec::Resources& later, Time now) const {
    return at_ && later.time.count() > 0 && now + later.time + kBackfillSlack <= *at_;
}

// Returns whether a member of the job `later` on this worker would take the worker from the first
// job. This is so if the first job can use the worker, but not together with that member. If the
// time of the reservation is unknown, this is true for every worker that the first job can use.
bool Reservation::costs(WorkerId worker, const spec::Resources& later) const {
    if (!fitting_.contains(worker)) return false;
    if (!at_) return true;
    Capacity one{{worker, capacity_.at(worker)}};
    if (!fits(later, one.at(worker))) return true;
    take(one, {place_on(worker, one.at(worker), later)});
    return !fits(wanted_, one.at(worker));
}

std::vector<Place> Reservation::places_beside(const spec::Resources& later, const Capacity& free,
                                              Time now, std::set<WorkerId> avoid) {
    if (ends_before(later, now)) return find_places(later, free, avoid);
    std::set<WorkerId> costly;
    for (const auto& [id, slots] : free) {
        if (costs(id, later)) costly.insert(id);
    }
    avoid.insert(costly.begin(), costly.end());
    auto places = find_places(later, free, avoid);
    if (places.empty()) return places;
    const auto is_costly = [&](const Place& place) { return costly.contains(place.worker); };
    if (!at_) return std::ranges::any_of(places, is_costly) ? std::vector<Place>{} : places;
    take(capacity_, places);  // check whether the first job still fits beside `places`
    const bool fits_beside = !find_places(wanted_, capacity_).empty();
    give(capacity_, places);
    if (!fits_beside) places.clear();
    return places;
}

void Reservation::add(const spec::Resources& later, const std::vector<Place>& places, Time now) {
    const bool gone_then = at_ && later.time.count() > 0 && now + later.time <= *at_;
    if (!at_ || gone_then) return;
    take(capacity_, places);
    for (const Place& place : places) {
        const auto slots = capacity_.find(place.worker);
        if (slots != capacity_.end() && !fits(wanted_, slots->second)) fitting_.erase(place.worker);
    }
}

}  // namespace roll::core
