// Plans which Slurm allocations to request. Simulates placing jobs on the existing and the
// requested nodes. Requests the nodes that are missing, within the limits of the queues.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/allocation/budget.hpp"
#include "daemon/core/placement/capacity.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/state/event.hpp"

namespace roll::core {

// Maximum number of batches, by queue and by the resources of the job. A batch is the set of
// allocations requested together for one job. Without an entry there is no maximum. worthwhile()
// adds an entry if the waiting jobs would use too little of a batch's nodes.
using OrderQuota = std::map<std::pair<std::string, spec::Resources>, int>;

class Planner {
  public:
    // The simulation starts with the nodes that exist or have been requested. `quotas` must outlive
    // the planner.
    Planner(const State& state, Time now, const OrderQuota& quotas)
        : state_(state),
          now_(now),
          quotas_(quotas),
          next_(state.next_allocation) {
        add_workers();
        add_expected();
        for (const auto& [name, queue] : state.queues) add_budget(name, queue);
    }

    // Plans one job that wants the resources `wanted`: reserves nodes for it, so that their
    // allocations are not released. Requests the missing nodes if `orders` is true. Returns true if
    // the job gets all of its nodes, existing or requested.
    bool serve(const spec::Resources& wanted, bool orders) {
        std::vector<std::size_t> found = fitting(wanted);
        const int missing = wanted.workers() - static_cast<int>(found.size());
        const bool comes = missing == 0 || (orders && order(wanted, missing, found));
        // If `comes` is false, some nodes are missing and cannot be requested. If the live workers
        // can hold the gang once all of them are free, the gang waits for the busy workers. Reserve
        // only the free live workers for the gang. Reserve no requested nodes: other jobs can use
        // these nodes, and would otherwise request more nodes.
        if (!comes && find_places(wanted, all_).empty()) return false;
        if (!comes) std::erase_if(found, [&](std::size_t i) { return !nodes_[i].live; });
        take(wanted, found);
        return missing == 0 || std::ssize(found) == wanted.workers();
    }

    bool needs(AllocationId id) const { return needed_.contains(id); }
    Events orders() { return std::move(orders_); }
    // Returns whether the waiting jobs would use at least min_percent of each batch's nodes. Checks
    // only queues that set min_percent. For each queue and resources of which a batch does not
    // reach min_percent, sets `quotas` to the number of batches that reach it.
    bool worthwhile(OrderQuota& quotas) const;

  private:
    // A node that exists or has been requested.
    struct Node {
        AllocationId allocation;  // allocation of the node; 0: the worker runs in no allocation
        int slots = 0;
        int gpu_hundredths = 0;
        std::int64_t memory = 0;
        int cpus = 0;
        std::optional<Time> leaves{};
        std::string segment{};
        bool live = false;  // true if the node's worker has joined; the segment is known only then
    };
    static Node whole(AllocationId id, const spec::PilotQueue& spec, Time leaves);
    // The allocations requested together for one job. The nodes of these allocations have the
    // indices from `first` up to, but not including, `last`.
    struct Batch {
        std::string queue;
        spec::Resources wanted;
        std::size_t first = 0;
        std::size_t last = 0;
    };

    void add_workers();
    void add_expected();
    void add_budget(const std::string& name, const AllocationQueue& queue);
    bool has_room(const Node& node, const spec::Resources& wanted) const;
    std::vector<std::size_t> fitting(const spec::Resources& wanted) const;
    std::vector<std::size_t> fitting_in_segments(const spec::Resources& wanted) const;
    bool order(const spec::Resources& wanted, int missing, std::vector<std::size_t>& found);
    bool refused(const std::string& name, const spec::Resources& wanted) const;
    bool pays(const Batch& batch) const;
    void place_order(const std::string& name, Budget& budget);
    void take(const spec::Resources& wanted, const std::vector<std::size_t>& found);

    const State& state_;
    Time now_;
    const OrderQuota& quotas_;
    std::uint64_t next_;
    Capacity all_ = known_capacity(state_, now_);
    std::vector<Node> nodes_{};
    std::map<std::string, Budget> budgets_{};
    std::set<AllocationId> needed_{};
    std::vector<Batch> batches_{};
    Events orders_{};
};

// Plans the ready jobs in queue order, within the users' limits. If the jobs would use too little
// of the nodes of some requests, repeats the simulation without these requests, until all remaining
// requests are worthwhile. Records in `quotas` the maxima that exclude these requests. `quotas`
// must outlive the planner.
Planner plan_ready_jobs(const State& state, Time now, OrderQuota& quotas);

}  // namespace roll::core
