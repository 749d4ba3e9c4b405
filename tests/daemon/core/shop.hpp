// A small world of workers and jobs. Jobs start at once when placed, and end after a given time.
#pragma once

#include <random>

#include "tests/daemon/core/desk.hpp"

namespace roll::core {

class Shop {
  public:
    explicit Shop(unsigned seed) : random(seed) {}

    int between(int low, int high) {
        return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
    }
    JobId submit(spec::JobSpec spec, std::chrono::seconds runs, const std::string& user = "ann") {
        spec.output = "/runs/x-{id}";
        desk.tell(Submit{"key-" + std::to_string(desk.state.next_job), user, std::move(spec)});
        const JobId id{desk.state.next_job - 1};
        length[id] = runs;
        return id;
    }
    // Returns the time at which the next attempt ends; nullopt if none runs.
    std::optional<Time> next_end() const {
        std::optional<Time> next;
        for (const JobId id : desk.state.index.running) {
            const Time end = desk.job(id).attempt->placed_at + length.at(id);
            if (!next || end < *next) next = end;
        }
        return next;
    }
    // Advances the clock to `until`. Attempts end when their time is over; attempts that must stop
    // end at once.
    void run_to(Time until) {
        start();
        for (auto end = next_end(); end && *end <= until; end = next_end()) {
            desk.now = std::max(desk.now, *end);
            for (const JobId id : std::set(desk.state.index.running)) {
                if (desk.job(id).attempt->placed_at + length.at(id) <= desk.now)
                    desk.exit(id, Outcome::Done);
            }
            start();
        }
        desk.pass(until - desk.now);
        start();
    }
    Time start_of(JobId id) const {
        const Job& job = desk.job(id);
        return job.attempt ? job.attempt->placed_at : job.past.front().placed_at;
    }
    bool has_started(JobId id) const { return desk.job(id).attempts > 0; }

    Desk desk;
    std::mt19937 random;
    std::map<JobId, std::chrono::seconds> length;

  private:
    void start() {
        for (const JobId id : std::set(desk.state.index.running)) {
            if (desk.job(id).attempt->phase == AttemptPhase::Stopping) {
                desk.exit(id, Outcome::Stopped, 143);
                continue;
            }
            for (const Place& place : std::vector(desk.job(id).attempt->places))
                if (!place.up) desk.tell(MemberStarted{place.worker, desk.attempt(id)});
        }
    }
};

}  // namespace roll::core
