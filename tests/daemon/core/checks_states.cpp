// States that no event leads to, for each check of check_invariants().
#include "tests/daemon/core/checks.hpp"

namespace roll::core {
namespace {

// Each breaks State in one place.
// clang-format off
constexpr Case kPlaces[] = {
    [](Busy& b) { b.run().places[0].slots.push_back(2); },
    [](Busy& b) { b.run().places[0].gpus.clear(); },
    [](Busy& b) { b.run().places[0].gpu_percent = 50; },
    [](Busy& b) { b.state.workers.erase(b.one); },
    [](Busy& b) { b.run().places[0].slots = {99}; },
    [](Busy& b) { ++b.run().places[0].memory; },
    [](Busy& b) { b.the(b.train).spec.resources.cpus = 1; b.run().places[0].cpus = b.run().places[1].cpus = 1; },
    [](Busy& b) { b.state.workers.at(b.three).memory = -1; },
    [](Busy& b) { b.run().places[1] = b.run().places[0]; },
    [](Busy& b) { b.run().places[0].gpus = {9}; },
    [](Busy& b) { b.run().places[1] = b.run().places[0]; b.run().places[1].slots = {3}; },
    [](Busy& b) { b.run().nodes.pop_back(); },
    [](Busy& b) { b.run().saved = 9; },
    [](Busy& b) { b.run().phase = AttemptPhase::Starting; },
    [](Busy& b) { b.run().started_at.reset(); },
    [](Busy& b) { b.run().preempted = true; },
    [](Busy& b) { b.run().outcome = Outcome::Done; },
    [](Busy& b) { b.run().blamed = "n1"; },
    [](Busy& b) { b.state.index.running.insert(b.ready); },
    [](Busy& b) { b.run().token.attempt = 7; },
    [](Busy& b) { b.run().token.incarnation = 99; },
    [](Busy& b) { b.run().places.pop_back(); b.run().nodes.pop_back(); },
    [](Busy& b) { b.run().places[0].spare = true; },
    [](Busy& b) {
        b.the(b.train).spec.resources.spares = 1;
        b.run().places.push_back({.worker = b.state.workers.rbegin()->first, .slots = {7}, .gpus = {7}});
        b.run().places.back().spare = true;
        b.run().nodes.push_back("n1.a1");
    },
    [](Busy& b) { b.run().places[0].up = false; },
    [](Busy& b) { b.run().places[0].ended = b.run().places[1].ended = true; },
};
constexpr Case kJobs[] = {
    [](Busy& b) { b.the(b.ready).spec.after = {{spec::After::Condition::Ok, JobId{99}}}; },
    [](Busy& b) { b.the(b.ready).spec.into = JobId{99}; },
    [](Busy& b) { b.the(b.ready).spec.source_job = JobId{99}; },
    [](Busy& b) { b.the(b.ready).array = JobId{1}; },
    [](Busy& b) { b.the(b.array).array = JobId{99}; },
    [](Busy& b) { b.the(b.ready).export_job = JobId{99}; },
    [](Busy& b) { b.the(b.ready).cron_last = JobId{99}; },
    [](Busy& b) { b.the(b.ready).infra_failures = -1; },
    [](Busy& b) { b.the(b.ready).timeouts = -1; },
    [](Busy& b) { b.the(b.ready).infra_failures = 5; },
    [](Busy& b) { b.the(b.ready).stalled = 7; },
    [](Busy& b) { b.the(b.ready).save_ms.resize(201); },
    [](Busy& b) { b.the(b.done).spec.open = true; },
    [](Busy& b) { b.the(b.ready).closed = true; },
    [](Busy& b) { b.the(b.done).exit_code = 1; },
    [](Busy& b) { b.state.next_job = 1; },
    [](Busy& b) { b.the(b.train).phase = JobPhase::Queued; },
    [](Busy& b) { b.the(b.train).due = false; },
    [](Busy& b) { b.the(b.done).ended_at.reset(); },
    [](Busy& b) { b.the(b.done).past.clear(); },
    [](Busy& b) { b.the(b.done).past[0].token.attempt = 7; },
    [](Busy& b) { b.the(b.retried).past[0].token.incarnation = 99; },
    [](Busy& b) { b.the(b.train).checkpoints.push_back(b.the(b.train).checkpoints[0]); },
    [](Busy& b) { b.the(b.train).checkpoints[0].token.attempt = 9; },
    [](Busy& b) { ++b.use().jobs; },
    [](Busy& b) { ++b.use().slots; },
    [](Busy& b) { ++b.use().gpu_hundredths; },
    [](Busy& b) { ++b.use().gpu_ms_due; },
    [](Busy& b) { b.use().gpu_ms = -1; },
    [](Busy& b) { b.state.use.clear(); },
    [](Busy& b) { b.state.keys["ann"]["other"] = b.done; },
    [](Busy& b) { b.state.keys["ann"].erase(b.the(b.done).key); },
};
constexpr Case kIndex[] = {
    [](Busy& b) { b.state.index.ready[Group{}] = {}; },
    [](Busy& b) {
        ReadyJobs& line = b.line_of(b.ready);
        line.by_age.insert({Time{}, b.done});
    },
    [](Busy& b) { b.the(b.ready).held = true; },
    [](Busy& b) { b.the(b.ready).spec.after = {{spec::After::Condition::Ok, b.group}}; },
    [](Busy& b) { b.state.index.doomed.insert(b.ready); },
    [](Busy& b) { b.state.index.sleeping.insert({Time{}, b.ready}); },
    [](Busy& b) { b.state.index.inside[b.done] = {}; },
    [](Busy& b) { b.state.index.inside[b.group].insert(b.ready); },
    [](Busy& b) { b.state.index.open.insert(b.done); },
    [](Busy& b) { b.state.index.by_worker[b.one].insert(b.ready); },
    [](Busy& b) { b.state.index.array_running[b.ready] = 1; },
    [](Busy& b) { b.state.index.by_session["x"] = b.one; },
    [](Busy& b) { b.state.index.arrays[b.array].count = 9; },
    [](Busy& b) { b.state.index.arrays[b.array].conditions[0].left = 0; },
    [](Busy& b) { b.state.index.closed.insert(b.ready); },
};
constexpr Case kSite[] = {
    [](Busy& b) { b.state.next_worker = 1; },
    [](Busy& b) { b.state.workers[WorkerId{0}] = {.node = "x", .session = "x", .slots = -1}; b.state.index.by_session["x"] = WorkerId{0}; },
    [](Busy& b) { b.state.workers.at(b.three).node = "n1"; },
    [](Busy& b) { b.state.sessions["n3"].push_back("x"); },
    [](Busy& b) { b.state.sessions["n3"].push_back(b.state.sessions["n3"][0]); },
    [](Busy& b) { b.state.generations["x"] = 1; },
    [](Busy& b) { b.state.machines["n1"].reason = "x"; },
    [](Busy& b) { b.state.machines["n1"].faults = {{.job = JobId{99}}}; },
    [](Busy& b) { b.gpu().spec.name = "x"; },
    [](Busy& b) { b.gpu().paused = true; },
    [](Busy& b) { b.gpu().failures = 1; },
    [](Busy& b) { b.gpu().gpu_seconds = -1; },
    [](Busy& b) { b.state.next_allocation = 1; },
    [](Busy& b) { b.granted().queue = "x"; },
    [](Busy& b) { b.granted().slurm_job.clear(); },
    [](Busy& b) { b.granted().incarnation = 99; },
    [](Busy& b) { b.granted().failed = true; },
    [](Busy& b) { b.granted().nodes.clear(); },
    [](Busy& b) { b.granted().joined = 0; },
    [](Busy& b) { b.granted().phase = AllocationPhase::Pending; },
    [](Busy& b) { b.granted().nodes = {"x"}; },
};
// clang-format on
constexpr std::span<const Case> kParts[] = {kPlaces, kJobs, kIndex, kSite};

}  // namespace

std::set<std::string> fired_by_states() {
    std::set<std::string> seen;
    const Busy busy;
    for (const std::span<const Case> part : kParts) {
        for (const Case& broken : part) {
            seen.insert(fired([&] {
                Busy own = busy;
                broken(own);
                check_invariants(own.state);
            }));
        }
    }
    return seen;
}

}  // namespace roll::core
