#include <algorithm>
#include <set>

#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/facts/availability.hpp"
#include "daemon/core/facts/machines.hpp"
#include "daemon/core/placement/capacity.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

// Returns whether some allocation queue may request nodes that can hold a member with `wanted`.
bool may_be_ordered(const State& state, const spec::Resources& wanted) {
    return std::ranges::any_of(state.queues, [&](const auto& item) {
        const AllocationQueue& queue = item.second;
        return !queue.paused && !queue.removing && offers(queue.spec, wanted);
    });
}

// Finds the excluded machines that must be used again because a ready job fits nowhere else.
class Needed {
  public:
    Needed(const State& state, Time now)
        : state_(state),
          without_(known_capacity(state, now)),
          with_(known_capacity(state, now, true)) {}

    std::set<std::string> find() {
        if (with_.size() == without_.size()) return {};
        for (const auto& [group, line] : state_.index.ready) look(group);
        return std::move(machines_);
    }

  private:
    void look(const Group& group) {
        std::vector<spec::Resources> shapes = group.variants;
        shapes.insert(shapes.begin(), group.resources);
        if (!seen_.insert(shapes).second) return;
        const auto runs = [&](const spec::Resources& wanted) {
            return may_be_ordered(state_, wanted) || !find_places(wanted, without_).empty();
        };
        if (std::ranges::any_of(shapes, runs)) return;
        std::set<WorkerId> excluded;
        for (const auto& [id, free] : with_)
            if (!without_.contains(id)) excluded.insert(id);
        for (const spec::Resources& wanted : shapes) {
            const auto places = find_places(wanted, with_, excluded);
            for (const Place& place : places)
                if (excluded.contains(place.worker))
                    machines_.insert(machine_of(state_.workers.at(place.worker).node));
            if (!places.empty()) return;
        }
    }

    const State& state_;
    Capacity without_;
    Capacity with_;
    std::set<std::vector<spec::Resources>> seen_{};
    std::set<std::string> machines_{};
};

bool others_work(const State& state, const std::string& machine,
                 const std::set<std::string>& gone) {
    return std::ranges::any_of(state.workers, [&](const auto& item) {
        const std::string other = machine_of(item.second.node);
        return other != machine && !gone.contains(other) && takes_work(state, item.second);
    });
}

}  // namespace

Events exclude_machines(const State& state, Time now) {
    Events events;
    std::set<std::string> gone;
    const auto excluded = [](const auto& item) { return item.second.excluded_until.has_value(); };
    std::set<std::string> needed;
    if (!state.index.ready.empty() && std::ranges::any_of(state.machines, excluded))
        needed = Needed(state, now).find();
    for (const auto& [name, machine] : state.machines) {
        if (machine.excluded_until) {
            const bool over = *machine.excluded_until <= now;
            const bool broken = std::ranges::any_of(machine.faults, &Fault::certain);
            if (over || (needed.contains(name) && !broken) || was_innocent(state, machine))
                events.push_back(MachineForgiven{name});
            continue;
        }
        const std::string reason = fault_of(state, machine, now - state.policy.bad_nodes.within);
        if (reason.empty() || !others_work(state, name, gone)) continue;
        gone.insert(name);
        events.push_back(
            MachineExcluded{name, now + state.policy.bad_nodes.exclude_for, reason, now});
    }
    return events;
}

}  // namespace roll::core
