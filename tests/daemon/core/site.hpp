// A core with one allocation queue. Tests call Slurm's side of the orders by hand.
#pragma once

#include "tests/daemon/core/desk.hpp"

namespace roll::core {

inline spec::PilotQueue gpu_queue() {
    spec::PilotQueue queue;
    queue.name = "gpu";
    queue.nodes = 1;
    queue.slots = 8;
    queue.gpus = 8;
    queue.time = std::chrono::hours(1);
    queue.handover = std::chrono::minutes(2);
    queue.idle = std::chrono::minutes(5);
    return queue;
}

struct Site : Desk {
    explicit Site(const spec::PilotQueue& queue = gpu_queue()) { tell(AddQueue{queue}); }

    void accept(std::uint64_t id) {
        tell(OrderAnswered{AllocationId{id}, true, "slurm-" + std::to_string(id), ""});
    }
    void refuse(std::uint64_t id) { tell(OrderAnswered{AllocationId{id}, false, "", "no such"}); }
    void see(std::uint64_t id, SlurmPhase phase, const std::string& reason = "") {
        tell(OrderSeen{AllocationId{id}, "slurm-" + std::to_string(id), phase, reason});
    }
    Pilot pilot(std::uint64_t id, std::chrono::seconds left = std::chrono::hours(1)) const {
        return {AllocationId{id}, state.incarnation, "slurm-" + std::to_string(id), now + left};
    }
    WorkerId pilot_comes(std::uint64_t id, const std::string& node, int slots = 8, int gpus = 8) {
        tell(WorkerHello{node, node + "-" + std::to_string(state.next_worker), slots, gpus,
                         pilot(id)});
        return WorkerId{state.next_worker - 1};
    }
    // Lets the first allocation's worker join, so that the queue counts as proven and may order
    // several allocations at once.
    void prove() {
        const JobId first = submit(wants(1, 1, 8));
        accept(1);
        pilot_comes(1, "n1");
        exit(first, Outcome::Done);
    }
    std::size_t alive() const { return state.allocations.size(); }
    bool has(std::uint64_t id) const { return state.allocations.contains(AllocationId{id}); }
    const Allocation& at(std::uint64_t id) const { return state.allocations.at(AllocationId{id}); }
    const AllocationQueue& queue() const { return state.queues.at("gpu"); }
    template <class Wanted>
    bool owes(std::uint64_t id) const {
        for (const SlurmAction& action : slurm_actions(state)) {
            const auto* wanted = std::get_if<Wanted>(&action);
            if (wanted != nullptr && wanted->allocation == AllocationId{id}) return true;
        }
        return false;
    }
};

}  // namespace roll::core
