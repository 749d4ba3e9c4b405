#include "daemon/core/rules/place.hpp"

#include "common/check.hpp"
#include "daemon/core/placement/avoided.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/placement/reservation.hpp"

namespace roll::core {
namespace {

class Placer {
  public:
    Placer(const State& state, Time now)
        : state_(state),
          now_(now),
          all_(all_capacity(state, now)),
          free_(free_capacity(state, now)),
          limits_(state, now) {}

    // Starts jobs, pass by pass over the queue, until a pass starts none. A further pass is needed
    // because each start changes shares and quotas. Returns the reservation of the first job that
    // must wait.
    std::optional<Promise> promise() {
        run();
        if (!first_) return std::nullopt;
        return Promise{first_id_, first_->at()};
    }

    Events run() {
        const bool moves = state_.policy.half_life.count() > 0 || !state_.policy.accounts.empty();
        while (pass() && moves) {}
        return std::move(events_);
    }

  private:
    struct Choice {
        int variant = 0;
        std::vector<Place> places;
    };

    // Goes through the queue once. Returns whether a job was started.
    bool pass() {
        first_.reset();
        Limits limits = limits_;
        Queue queue(state_, now_, limits);
        const std::size_t before = events_.size();
        while (const auto id = queue.next()) {
            const Job& job = state_.jobs.at(*id);
            if (placed_.contains(*id)) continue;
            const std::vector<int> shapes = allowed_variants(job, limits, now_);
            const auto forbidden = forbidden_workers(state_, job, all_, shapes);
            if (const auto choice = find(job, shapes, forbidden)) {
                place(*id, job, *choice);
                limits.add(job, job.spec.shape(choice->variant));
                continue;
            }
            // The jobs of a group are equal for placement, so the rest of the group does not fit
            // either. Do not skip the rest if this job avoids workers: other jobs of the group may
            // fit on those workers.
            if (forbidden.empty()) queue.drop();
            if (first_) continue;
            const Capacity others = forbidden.empty() ? Capacity{} : without(all_, forbidden);
            const Capacity& all = forbidden.empty() ? all_ : others;
            const auto holds = [&](int shape) {
                return !find_places(job.spec.shape(shape), all).empty();
            };
            const auto wanted = std::ranges::find_if(shapes, holds);
            if (wanted == shapes.end()) continue;
            if (!state_.policy.backfill) break;
            first_.emplace(job.spec.shape(*wanted), without(free_, forbidden), all, held());
            first_id_ = *id;
            // later jobs must also leave the job's quota free
            limits.add(job, job.spec.shape(*wanted));
        }
        return events_.size() > before;
    }

    // Returns the first of the variants `shapes` that fits now, with its places; nullopt if none
    // fits.
    std::optional<Choice> find(const Job& job, const std::vector<int>& shapes,
                               const std::set<WorkerId>& forbidden) {
        const std::set<WorkerId> avoid = avoided_workers(state_, job);
        Capacity others;
        if (!forbidden.empty()) others = without(free_, forbidden);
        const Capacity& free = forbidden.empty() ? free_ : others;
        for (const int shape : shapes) {
            const spec::Resources& wanted = job.spec.shape(shape);
            auto places = first_ ? first_->places_beside(wanted, free, now_, avoid)
                                 : find_places(wanted, free, avoid);
            if (!places.empty()) return Choice{shape, std::move(places)};
        }
        return std::nullopt;
    }

    void place(JobId id, const Job& job, const Choice& choice) {
        const spec::Resources& wanted = job.spec.shape(choice.variant);
        take(free_, choice.places);
        if (first_) first_->add(wanted, choice.places, now_);
        limits_.add(job, wanted);
        ROLL_CHECK(job.phase == JobPhase::Queued && placed_.insert(id).second);
        events_.push_back(AttemptPlaced{
            {id, {state_.incarnation, job.attempts + 1}}, choice.places, now_, choice.variant});
    }

    // Returns the holders of the capacity in use, including attempts placed in this turn.
    std::vector<Holder> held() const {
        std::vector<Holder> all;
        for (const JobId id : state_.index.running) {
            const Job& job = state_.jobs.at(id);
            all.push_back({latest_end(job, now_), job.attempt->places});
        }
        for (const Event& event : events_) {
            const auto& placed = std::get<AttemptPlaced>(event);
            const spec::JobSpec& spec = state_.jobs.at(placed.attempt.job).spec;
            const auto limit = spec.shape(placed.variant).time;
            all.push_back({latest_end(spec, limit, now_, now_), placed.places});
        }
        return all;
    }

    const State& state_;
    Time now_;
    Capacity all_;
    Capacity free_;
    Limits limits_;
    std::set<JobId> placed_{};
    std::optional<Reservation> first_{};  // reservation of the first job that must wait
    JobId first_id_{};
    Events events_{};
};

}  // namespace

static bool dispatches(const State& state) {
    return !state.stopped && !state.index.ready.empty() && !state.workers.empty();
}

std::optional<Promise> promised(const State& state, Time now) {
    if (!dispatches(state)) return std::nullopt;
    return Placer(state, now).promise();
}

// Places the ready jobs. The first job that must wait gets a reservation. A job gets none if the
// live workers could never hold it, or if its array's limit or a quota blocks it.
Events place_jobs(const State& state, Time now) {
    if (state.adopting || !dispatches(state)) return {};
    return Placer(state, now).run();
}

}  // namespace roll::core
