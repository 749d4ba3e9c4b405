#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/decide/decide.hpp"
#include "daemon/core/decide/find.hpp"
#include "daemon/core/decide/on.hpp"
#include "daemon/core/facts/lookups.hpp"
#include "daemon/core/facts/machines.hpp"

namespace roll::core {

Result<Events> on(const State& s, const WorkerHeard& in, Time) {
    const auto worker = s.workers.find(in.worker);
    if (worker == s.workers.end() || worker->second.quiet != in.heard) return Events{};
    return Events{WorkerQuiet{in.worker, !in.heard, worker->second.node}};
}

// Drains nodes, or ends their draining. Ending the draining also ends the exclusion of the nodes'
// machines.
Result<Events> on(const State& s, const Drain& in, Time) {
    Events events;
    const std::string machine = machine_of(in.node);
    if (!in.draining && s.machines.contains(machine))
        events.push_back(MachineForgiven{machine, in.by});
    for (const auto& [id, worker] : s.workers) {
        if (worker.node != in.node) continue;
        if (worker.draining != in.draining)
            events.push_back(WorkerDrained{id, in.draining, in.by, in.node});
        return events;
    }
    if (!events.empty()) return events;
    return fail(ErrorCode::NotFound, "there is no node " + in.node, "rollctl nodes");
}

// Registers a worker. A hello with a new session means that the node's roll-worker was restarted.
// Before the new process registered, it killed the processes of the old one. The old worker is
// therefore lost, and a late message must not revive the old worker.
Result<Events> on(const State& s, const WorkerHello& in, Time now) {
    if (in.slots < 0 || in.gpus < 0 || in.memory < 0 || in.cpus < 0)
        return fail(ErrorCode::InvalidArgument,
                    "the worker reports negative resources; allowed: 0 or more");
    const auto* known = find(s.sessions, in.node);
    if (known) {
        const auto found = std::ranges::find(*known, in.session);
        if (found != known->end() && found + 1 != known->end())
            return fail(ErrorCode::Refused,
                        "a newer roll-worker has replaced this one as node " + in.node);
    }
    if (s.index.by_session.contains(in.session)) return Events{};
    // Refuse a hello that arrives late, from a process that was already replaced.
    const auto* newest = find(s.generations, in.node);
    if (newest && in.generation > 0 && in.generation < *newest)
        return fail(ErrorCode::Refused,
                    "a newer roll-worker has replaced this one as node " + in.node);
    Events events;
    if (in.pilot) {
        ROLL_TRY(events, welcome_pilot(s, *in.pilot, now));
    }
    if (const auto* old = known ? find(s.index.by_session, known->back()) : nullptr) {
        ROLL_CHECK(s.workers.at(*old).node == in.node);
        events.push_back(
            WorkerLost{*old, "roll-worker on " + in.node + " was restarted", now, in.node});
    }
    events.push_back(WorkerJoined{WorkerId{s.next_worker}, in.node, in.session, in.slots, in.gpus,
                                  now, in.generation, in.segment, in.gpu_numa, in.memory, in.cpus,
                                  in.home});
    if (in.pilot) events.push_back(PilotJoined{WorkerId{s.next_worker}, in.pilot->allocation, now});
    return events;
}

Result<Events> on(const State& s, const WorkerGone& in, Time now) {
    const Worker* worker = find(s.workers, in.worker);
    if (worker == nullptr) return Events{};
    return Events{WorkerLost{in.worker, in.reason, now, worker->node}};
}

// Handles Slurm's report that the node of a silent worker is down.
//
// The report may be wrong. The node's processes may then run on until the worker's lease and fence
// have ended. The members of training jobs on the node nevertheless end at once, so that their next
// attempts can start. Ending these members is safe even if both attempts run for a while: each
// attempt names its output by its token, and only the output of the current attempt counts. Other
// jobs wait until the worker is lost. The worker is drained, so that it gets no new work even if
// its heartbeats arrive again.
Result<Events> on(const State& s, const NodeDown& in, Time) {
    const Worker* worker = find(s.workers, in.worker);
    if (worker == nullptr || !worker->quiet) return Events{};
    Events events;
    if (!worker->draining) events.push_back(WorkerDrained{in.worker, true, {}, worker->node});
    for (const JobId id : jobs_on(s, in.worker)) {
        const Job& job = s.jobs.at(id);
        if (!job.spec.trains()) continue;
        const Place* place = job.attempt->place_on(in.worker);
        ROLL_CHECK(place != nullptr);
        if (place->ended) continue;
        events.push_back(
            MemberEnded{{id, job.attempt->token}, in.worker, Outcome::Infra, 1, in.reason, {}});
    }
    return events;
}

// Records that a worker runs an attempt that is not current. The answer to the worker reports the
// attempt as FENCED, so that the worker kills it. The gateway sends this input once per attempt and
// worker.
Result<Events> on(const State& s, const StaleClaim& in, Time now) {
    const Worker* worker = find(s.workers, in.worker);
    if (worker == nullptr || is_current(s, in.worker, in.attempt)) return Events{};
    return Events{AttemptFenced{in.attempt, in.worker, worker->node, now}};
}

}  // namespace roll::core
