#include "daemon/core/rules/predicted_starts.hpp"

#include <algorithm>

#include "daemon/core/placement/avoided.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/placement/reservation.hpp"

namespace roll::core {
namespace {

// Maximum number of workers that are visited; each predicted job visits every worker. The maximum
// bounds the time, because rolld serves nobody while it predicts.
constexpr std::size_t kWorkerVisitsMax = 100'000;

class Predictor {
  public:
    Predictor(const State& state, Time now)
        : state_(state),
          now_(now),
          all_(all_capacity(state, now)),
          free_(free_capacity(state, now)),
          limits_(state, now) {
        for (const JobId id : state.index.running) {
            const Job& job = state.jobs.at(id);
            held_.push_back({latest_end(job, now), job.attempt->places});
        }
    }

    std::vector<PredictedStart> run() {
        std::vector<PredictedStart> starts;
        const std::size_t most = std::clamp<std::size_t>(
            kWorkerVisitsMax / std::max<std::size_t>(all_.size(), 1), 1, kPredictedMax);
        Limits limits = limits_;
        Queue queue(state_, now_, limits);
        while (starts.size() < most) {
            const auto id = queue.next();
            if (!id) break;
            starts.push_back({*id, is_blocked_ ? std::nullopt : start_of(*id, limits)});
        }
        return starts;
    }

  private:
    // Returns the time at which the job starts behind all earlier jobs. From this time on, the job
    // holds its places in the prediction.
    std::optional<Time> start_of(JobId id, Limits& limits) {
        const Job& job = state_.jobs.at(id);
        const std::vector<int> shapes = allowed_variants(job, limits, now_);
        const auto forbidden = forbidden_workers(state_, job, all_, shapes);
        const Capacity all = without(all_, forbidden);
        const auto fitting = std::ranges::find_if(
            shapes, [&](int shape) { return !find_places(job.spec.shape(shape), all).empty(); });
        if (fitting == shapes.end()) return std::nullopt;
        const spec::Resources& wanted = job.spec.shape(*fitting);
        auto places = find_places(wanted, without(free_, forbidden));
        if (places.empty()) {
            const auto at = Reservation(wanted, without(free_, forbidden), all, held_).at();
            is_blocked_ = !at;
            if (!at) return std::nullopt;
            advance(*at);
            places = find_places(wanted, without(free_, forbidden));
            if (places.empty()) return std::nullopt;
        }
        take(free_, places);
        limits.add(job, wanted);
        held_.push_back({latest_end(job.spec, wanted.time, time_, time_), std::move(places)});
        return time_;
    }

    // Gives back the capacity of all holders that end at `until` or before.
    void advance(Time until) {
        time_ = std::max(time_, until);
        const auto ended = std::ranges::partition(
            held_, [&](const Holder& holder) { return !holder.until || *holder.until > time_; });
        for (const Holder& holder : ended) give(free_, holder.places);
        held_.erase(ended.begin(), ended.end());
    }

    const State& state_;
    Time now_;
    Time time_ = now_;  // start of the job that was predicted last
    Capacity all_;
    Capacity free_;  // free capacity at `time_`
    Limits limits_;
    std::vector<Holder> held_{};
    bool is_blocked_ = false;  // true if the start of an earlier job is unknown
};

}  // namespace

std::vector<PredictedStart> predicted_starts(const State& state, Time now) {
    const bool dispatches = !state.stopped && !state.index.ready.empty() && !state.workers.empty();
    if (!dispatches) return {};
    return Predictor(state, now).run();
}

}  // namespace roll::core
