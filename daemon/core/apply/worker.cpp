#include "daemon/core/apply/faults.hpp"
#include "daemon/core/apply/find.hpp"
#include "daemon/core/apply/on.hpp"

namespace roll::core {

void on(State& s, const WorkerJoined& e) {
    ROLL_CHECK(e.worker.value >= s.next_worker);
    s.next_worker = e.worker.value + 1;
    // Check that the session is new, and that the node's earlier worker is already lost.
    auto& sessions = s.sessions[e.node];
    ROLL_CHECK(!s.index.by_session.contains(e.session));
    ROLL_CHECK(sessions.empty() || !s.index.by_session.contains(sessions.back()));
    ROLL_CHECK(e.generation == 0 || e.generation >= s.generations[e.node]);
    s.workers[e.worker] = Worker{
        .node = e.node, .session = e.session, .slots = e.slots, .gpus = e.gpus, .joined_at = e.at};
    s.workers[e.worker].segment = e.segment;
    s.workers[e.worker].gpu_numa = e.gpu_numa;
    s.workers[e.worker].memory = e.memory;
    s.workers[e.worker].cpus = e.cpus;
    s.workers[e.worker].home = e.home;
    s.index.by_session[e.session] = e.worker;
    if (e.generation > 0) s.generations[e.node] = e.generation;
    if (sessions.empty() || sessions.back() != e.session) sessions.push_back(e.session);
}
void on(State& s, const WorkerDrained& e) { at(s.workers, e.worker).draining = e.draining; }
void on(State& s, const WorkerQuiet& e) { at(s.workers, e.worker).quiet = e.quiet; }
void on(State& s, const WorkerLost& e) {
    note_loss(s, e.worker, e.at);
    ROLL_CHECK(s.index.by_session.erase(at(s.workers, e.worker).session) == 1);
    s.workers.erase(e.worker);
}
void on(State& s, const MachineExcluded& e) {
    Machine& machine = s.machines[e.machine];
    machine.excluded_until = e.until;
    machine.reason = e.reason;
}
// Forgets the machine's faults, except faults that have a common cause. Faults with a common cause
// are kept to recognize this cause in later faults of other machines.
void on(State& s, const MachineForgiven& e) {
    const auto found = s.machines.find(e.machine);
    if (found == s.machines.end()) return;
    Machine machine;
    for (const Fault& fault : found->second.faults)
        if (fault.common && !fault.certain) machine.faults.push_back(fault);
    if (machine.faults.empty())
        s.machines.erase(found);
    else
        found->second = std::move(machine);
}

}  // namespace roll::core
