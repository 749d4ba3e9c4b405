// Events and calls that a check refuses.
#include "daemon/core/allocation/planner.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/decide/decide.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/placement/gpu_affinity.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/placement/segments.hpp"
#include "daemon/core/rules/place.hpp"
#include "daemon/core/rules/rules.hpp"
#include "tests/daemon/core/checks.hpp"

namespace roll::core {
namespace {

using Wrong = Event (*)(Busy& busy);

// Each returns an event that is illegal in the state in which it leaves rolld.
// clang-format off
constexpr Wrong kEvents[] = {
    [](Busy& b) -> Event { return JobSubmitted{b.done, "k", "ann", wants(1, 1), b.now}; },
    [](Busy& b) -> Event { return JobSubmitted{JobId{b.state.next_job}, b.the(b.done).key, "ann", wants(1, 1), b.now}; },
    [](Busy& b) -> Event { return ExportQueued{b.ready, b.done}; },
    [](Busy& b) -> Event { return ExportQueued{b.done, b.ready}; },
    [](Busy& b) -> Event { return JobHeld{b.done}; },
    [](Busy&) -> Event { return JobHeld{JobId{99}}; },
    [](Busy& b) -> Event { return JobClosed{b.ready}; },
    [](Busy& b) -> Event { b.the(b.train).cancel_requested = true; return JobCancelRequested{b.train, "", b.now}; },
    [](Busy& b) -> Event { return JobRequeued{b.ready}; },
    [](Busy& b) -> Event { b.the(b.train).attempt.reset(); return JobRequeued{b.train, b.now, 5}; },
    [](Busy& b) -> Event { return JobDue{b.ready}; },
    [](Busy& b) -> Event { return JobEnded{b.train, JobPhase::Done, 0, "", b.now}; },
    [](Busy& b) -> Event { b.state.use.clear(); return JobEnded{b.ready, JobPhase::Cancelled, 1, "", b.now}; },
    [](Busy&) -> Event { return IncarnationRaised{}; },
    [](Busy& b) -> Event { return WorkerJoined{b.one, "x", "x"}; },
    [](Busy& b) -> Event { return WorkerJoined{WorkerId{9}, "x", b.state.workers.at(b.one).session}; },
    [](Busy&) -> Event { return WorkerJoined{WorkerId{9}, "n3", "x"}; },
    [](Busy& b) -> Event { b.state.generations["x"] = 5; return WorkerJoined{WorkerId{9}, "x", "x", 1, 0, b.now, 2}; },
    [](Busy& b) -> Event { b.state.index.by_session.clear(); return WorkerLost{b.three, "", b.now}; },
    [](Busy& b) -> Event { return AttemptStarted{{b.train, {1, 9}}, b.now}; },
    [](Busy& b) -> Event { return AttemptPlaced{b.key(), {}, b.now}; },
    [](Busy& b) -> Event { return AttemptPlaced{{b.ready, {b.state.incarnation, 5}}, {}, b.now}; },
    [](Busy& b) -> Event { return AttemptPlaced{{b.ready, {99, 1}}, {}, b.now}; },
    [](Busy& b) -> Event { return AttemptPlaced{{b.ready, {b.state.incarnation, 1}}, {}, b.now, 3}; },
    [](Busy& b) -> Event { return AttemptStarted{b.key(), b.now}; },
    [](Busy& b) -> Event { return AttemptStarted{b.attempt(b.fresh), b.now}; },
    [](Busy& b) -> Event { b.run().phase = AttemptPhase::Stopping; return AttemptStopping{b.key(), ""}; },
    [](Busy& b) -> Event { return MemberEnded{b.key(), b.three, Outcome::Done, 0, ""}; },
    [](Busy& b) -> Event { return MemberUp{b.key(), b.one}; },
    [](Busy& b) -> Event { return AttemptEnded{b.key(), Outcome::Done, 0, "", b.now}; },
    [](Busy& b) -> Event {
        for (Place& place : b.run().places) place.ended = true;
        b.run().nodes.pop_back();
        return AttemptEnded{b.key(), Outcome::Infra, 1, "", b.now};
    },
    [](Busy& b) -> Event { return CheckpointAsked{b.key(), 9}; },
    [](Busy& b) -> Event { return TrainingAsked{b.key(), {9}}; },
    [](Busy& b) -> Event { return TrainingAnswered{b.key(), {9}}; },
    [](Busy& b) -> Event {
        b.run().requests.assign(kRequestsKept, {{1}, "", std::nullopt});
        return TrainingAsked{b.key(), {2}};
    },
    [](Busy& b) -> Event { return CheckpointRecorded{b.key(), 20, "/c", b.now, 9}; },
    [](Busy& b) -> Event { return CheckpointRecorded{b.key(), 5, "/c", b.now}; },
    [](Busy& b) -> Event { return CheckpointPruned{b.train, 77, b.key().token}; },
    [](Busy& b) -> Event {
        b.the(b.train).exports.push_back({20, "/e"});
        return ExportRecorded{b.key(), "/e", b.now, 20, 20};
    },
    [](Busy& b) -> Event { b.state.index.open.erase(b.ready); return ClockStepped{1000, b.now}; },
    [](Busy& b) -> Event { b.state.index.sleeping.clear(); return ClockStepped{1000, b.now}; },
    [](Busy& b) -> Event { b.state.index.array_running.clear(); return JobHeld{b.array}; },
    [](Busy& b) -> Event { b.state.index.arrays[b.array].conditions[0].left = 0; return JobHeld{b.array}; },
    [](Busy& b) -> Event { b.line_of(b.ready).by_age.clear(); return JobHeld{b.ready}; },
    [](Busy&) -> Event { return AllocationReturned{AllocationId{9}}; },
    [](Busy&) -> Event { return QueueRemoving{"x"}; },
    [](Busy& b) -> Event { return QueueAdded{b.gpu().spec, b.now}; },
    [](Busy&) -> Event { return QueueRemoved{"gpu"}; },
    [](Busy& b) -> Event { b.gpu().removing = true; return QueueRemoved{"gpu"}; },
    [](Busy& b) -> Event { return AllocationOrdered{AllocationId{1}, "gpu", b.state.incarnation, b.now}; },
    [](Busy& b) -> Event { return AllocationOrdered{AllocationId{9}, "gpu", 99, b.now}; },
    [](Busy&) -> Event { return AllocationAccepted{AllocationId{1}, "7"}; },
    [](Busy& b) -> Event { b.granted().phase = AllocationPhase::Ordered; return AllocationGranted{AllocationId{1}, b.now, b.now}; },
    [](Busy& b) -> Event { b.granted().phase = AllocationPhase::Pending; return AllocationReturned{AllocationId{1}}; },
    [](Busy& b) -> Event { b.granted().closed = true; return AllocationClosed{AllocationId{1}}; },
    [](Busy& b) -> Event { b.granted().releasing = true; return AllocationClosed{AllocationId{1}}; },
    [](Busy& b) -> Event { b.granted().releasing = true; return AllocationReleasing{AllocationId{1}, false, ""}; },
    [](Busy& b) -> Event { return PilotJoined{WorkerId{99}, AllocationId{1}, b.now}; },
    [](Busy& b) -> Event { b.granted().releasing = true; return PilotJoined{b.three, AllocationId{1}, b.now}; },
};

const spec::Resources kHuge{.nodes = 1, .slots_per_node = 99, .gpus_per_node = 0};

FreeSlots node(std::vector<int> slots, std::vector<int> gpus) {
    FreeSlots free{.slots = std::move(slots), .gpus = std::move(gpus)};
    free.slots_in_all = 2;
    return free;
}
Place place(std::vector<int> slots, std::vector<int> gpus) {
    return {.worker = WorkerId{1}, .slots = std::move(slots), .gpus = std::move(gpus)};
}
void take_from(const FreeSlots& free, const Place& place) {
    Capacity capacity{{WorkerId{1}, free}};
    take(capacity, {place});
}
void give_to(const FreeSlots& free, const Place& place) {
    Capacity capacity{{WorkerId{1}, free}};
    give(capacity, {place});
}
void place_in(const FreeSlots& free, int slots, int gpus, int percent = 100) {
    place_on(WorkerId{1}, free, {.slots_per_node = slots, .gpus_per_node = gpus, .gpu_percent = percent});
}

// Each calls a function against its contract, or with a broken State.
constexpr Case kCalls[] = {
    [](Busy&) { AllocationQueue queue; queue.spec.nodes = 0; most_alive(queue, 0); },
    [](Busy& b) { b.gpu().paused = true; budget_of(b.state, "gpu", b.gpu(), b.now); },
    [](Busy& b) { b.run().places[0].memory = 1; OrderQuota quotas; plan_ready_jobs(b.state, b.now, quotas); },
    [](Busy& b) { b.run().places[0].slots = {0, 1, 2, 3, 4}; OrderQuota quotas; plan_ready_jobs(b.state, b.now, quotas); },
    [](Busy& b) { file_places(b.state, b.train); },
    [](Busy& b) { unfile_places(b.state, b.train); unfile_places(b.state, b.train); },
    [](Busy& b) { file(b.state, b.ready); },
    [](Busy& b) { file(b.state, b.train); },
    [](Busy& b) { b.state.index.inside[b.group].insert(b.ready); (void)decide(b.state, Cancel{b.group, ""}, b.now); },
    [](Busy& b) { b.state.workers.at(b.three).node = "x"; (void)decide(b.state, WorkerHello{"n3", "x"}, b.now); },
    [](Busy& b) {
        b.state.workers.at(b.three).quiet = true;
        b.state.index.by_worker[b.three].insert(b.train);
        (void)decide(b.state, NodeDown{b.three, ""}, b.now);
    },
    [](Busy& b) { b.state.index.by_worker[b.three] = {b.train}; is_busy(b.state, b.three); },
    [](Busy&) { take_from(node({}, {}), place({0}, {})); },
    [](Busy&) { take_from(node({}, {50}), place({}, {0})); },
    [](Busy&) { Place two = place({}, {}); two.cpus = 2; take_from(node({}, {}), two); },
    [](Busy&) { give_to(node({0, 1}, {}), place({1}, {})); },
    [](Busy&) { give_to(node({}, {50}), place({}, {0})); },
    [](Busy&) { place_in(node({0}, {10}), 1, 1, 50); },
    [](Busy&) { place_in(node({0}, {50}), 1, 1); },
    [](Busy&) { place_in(node({0}, {100}), 2, 1); },
    [](Busy&) { place_in(node({0}, {}), 2, 0); },
    [](Busy& b) { Limits(b.state, b.now).add(b.the(b.ready), kHuge, -1); },
    [](Busy& b) { b.state.index.array_running.clear(); Limits(b.state, b.now).add(b.the(b.array), kHuge, -1); },
    [](Busy& b) {
        b.state.policy.half_life = std::chrono::hours(1);
        b.state.policy.users["ann"].share = 0;
        Limits(b.state, b.now).rank(b.the(b.ready));
    },
    [](Busy& b) { b.line_of(b.ready).by_age.clear(); due_jobs(b.state, b.now); },
    [](Busy&) { choose_workers({{WorkerId{1}, "s"}, {WorkerId{1}, "s"}, {WorkerId{2}, "s"}}, {.nodes = 2, .spares = 1}); },
    [](Busy& b) { b.state.index.inside.clear(); b.state.index.closed = {b.group}; end_closed_jobs(b.state, b.now); },
    [](Busy& b) { b.state.index.to_export = {b.ready}; queue_exports(b.state, b.now); },
    [](Busy& b) { b.state.index.doomed = {b.ready}; end_hopeless_jobs(b.state, b.now); },
    [](Busy& b) {
        b.the(b.array).cancel_requested = true;
        b.state.index.doomed = {b.array};
        b.state.index.arrays.clear();
        end_hopeless_jobs(b.state, b.now);
    },
    [](Busy& b) { b.state.workers.at(b.three).slots = 200; b.the(b.ready).phase = JobPhase::Done; place_jobs(b.state, b.now); },
    [](Busy& b) {
        b.state.policy.preempt = true;
        b.the(b.ready).spec.resources = wants(1, 8).resources;
        b.the(b.ready).spec.priority = 10;
        b.run().started_at.reset();
        preempt_jobs(b.state, b.now);
    },
    [](Busy& b) {
        b.the(b.train).infra_failures = -5;
        for (Place& place : b.run().places) place.ended = true;
        b.run().outcome = Outcome::Infra;
        settle_attempts(b.state, b.now);
    },
    [](Busy&) { gpu_ms(kHuge, std::chrono::milliseconds(-1)); },
    [](Busy&) { Use use; change(use, kHuge, 2, Time{}, {}); },
    [](Busy&) { Use use; change(use, kHuge, -1, Time{}, {}); },
};
// clang-format on

}  // namespace

std::set<std::string> fired_by_events() {
    std::set<std::string> seen;
    const Busy busy;
    for (const Wrong& wrong : kEvents) {
        seen.insert(fired([&] {
            Busy own = busy;
            core::apply(own.state, wrong(own));
        }));
    }
    return seen;
}

std::set<std::string> fired_by_calls() {
    std::set<std::string> seen;
    const Busy busy;
    for (const Case& broken : kCalls) {
        seen.insert(fired([&] {
            Busy own = busy;
            broken(own);
        }));
    }
    return seen;
}

}  // namespace roll::core
