// A core with a clock that moves only when told to. Each input is one turn, as the engine runs it.
#pragma once

#include <gtest/gtest.h>

#include "daemon/core/core.hpp"
#include "daemon/core/placement/queue.hpp"

namespace roll::core {

class Desk {
  public:
    Desk() { tell(Started{}); }

    // Runs one turn with this input. Returns all events, including those of the rules. Fails the
    // test if the input is refused.
    Events tell(const Input& input) {
        auto decided = decide(state, input, now);
        EXPECT_TRUE(decided) << (decided ? "" : decided.error().message);
        if (!decided) return {};
        Events all;
        take(*decided, all);
        for (const Rule rule : rules()) take(rule(state, now), all);
        if (careful) check();
        return all;
    }
    // Checks that no rule returns events, and that all invariants hold.
    void check() const {
        std::size_t number = 0;
        for (const Rule rule : rules()) {
            EXPECT_TRUE(rule(state, now).empty()) << "rule " << number << " is not at rest";
            ++number;
        }
        check_invariants(state);
    }
    Error refusal(const Input& input) const {
        const auto decided = decide(state, input, now);
        EXPECT_FALSE(decided);
        return decided ? Error{} : decided.error();
    }
    void pass(std::chrono::milliseconds time) {
        now += time;
        tell(Tick{});
    }

    JobId submit(spec::JobSpec spec) {
        if (spec.output.empty()) spec.output = "/runs/x-{id}";
        tell(Submit{"key-" + std::to_string(state.next_job), "ann", std::move(spec)});
        return JobId{state.next_job - 1};
    }
    WorkerId join(const std::string& node, int slots, int gpus = 0) {
        tell(WorkerHello{node, node + "-" + std::to_string(state.next_worker), slots, gpus});
        return WorkerId{state.next_worker - 1};
    }
    const Job& job(JobId id) const { return state.jobs.at(id); }
    AttemptKey attempt(JobId id) const { return {id, job(id).attempt.value().token}; }
    WorkerId worker_of(JobId id, std::size_t member = 0) const {
        return job(id).attempt.value().places.at(member).worker;
    }
    void exit(JobId id, Outcome outcome, int code = 0, const std::string& reason = "") {
        for (const Place& place : std::vector<Place>(job(id).attempt.value().places)) {
            if (!place.ended && job(id).attempt)
                tell(MemberExited{place.worker, attempt(id), outcome, code, reason});
        }
    }

    State state;
    bool careful = true;  // call check() after each turn
    Time now{std::chrono::hours(1)};

  private:
    void take(const Events& events, Events& all) {
        for (const Event& event : events) apply(state, event);
        all.insert(all.end(), events.begin(), events.end());
    }
};

inline spec::JobSpec wants(int nodes, int slots, int gpus = 0) {
    spec::JobSpec spec;
    spec.name = "x";
    spec.resources = {.nodes = nodes, .slots_per_node = slots, .gpus_per_node = gpus};
    return spec;
}

// Returns all ready jobs in the order of the queue.
inline std::vector<JobId> due_jobs(const State& state, Time now) {
    std::vector<JobId> all;
    const Limits limits(state, now);
    Queue queue(state, now, limits);
    while (const auto id = queue.next()) all.push_back(*id);
    return all;
}

inline bool is_running(const Desk& desk, JobId id) {
    return desk.job(id).phase == JobPhase::Running;
}

}  // namespace roll::core
