// Orders and gives back Slurm allocations. Simulates placing the waiting jobs on the existing and
// ordered nodes, in queue order. Orders the nodes that are missing, and gives back allocations that
// stay unused.
#include <algorithm>
#include <set>
#include <utility>

#include "daemon/core/allocations.hpp"
#include "daemon/core/availability.hpp"
#include "daemon/core/capacity.hpp"
#include "daemon/core/dependency.hpp"
#include "daemon/core/find_places.hpp"
#include "daemon/core/queue.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

constexpr auto kSoon = std::chrono::minutes(5);  // longer than any back-off of a job

// A node that exists or has been ordered.
struct Node {
    AllocationId allocation;  // 0: the worker runs in no allocation
    int slots = 0;
    int gpu_hundredths = 0;
    std::optional<Time> leaves{};
    std::string segment{};
    bool live = false;  // its worker has joined; only then its segment is known
};

// The orders made together for one job. Their nodes have the indices from `first` up to `last`.
struct Batch {
    std::string queue;
    spec::Resources wanted;
    std::size_t first = 0;
    std::size_t last = 0;
};

// For a queue and a variant for which some orders would be used too little: how many of these
// orders may be made.
using Worth = std::map<std::pair<std::string, spec::Resources>, int>;

// How many allocations one queue may still order.
struct Budget {
    const spec::PilotQueue* spec = nullptr;
    // No order now: back-off after a failure, or the first allocation has not joined.
    bool later = false;
    int orders = 0;  // number of orders that may be made now
    int alive = 0;
    int waiting = 0;  // number of its allocations that are not granted yet
    int most = 0;     // number of its allocations that may ever be alive at once
};

class Planner {
  public:
    Planner(const State& state, Time now, const Worth& worth)
        : state_(state),
          now_(now),
          worth_(worth),
          next_(state.next_allocation) {
        add_workers();
        add_expected();
        for (const auto& [name, queue] : state.queues) add_budget(name, queue);
    }

    // Plans one job. If `orders` is set, orders the missing nodes; else the job only keeps existing
    // nodes in use. Returns false if the job can be served neither now nor later; then no equal job
    // can.
    bool serve(const spec::Resources& wanted, bool orders) {
        std::vector<std::size_t> found = fitting(wanted);
        const int missing = wanted.workers() - static_cast<int>(found.size());
        const bool comes = missing == 0 || (orders && order(wanted, missing, found));
        // A gang that the live workers can hold waits for the busy ones and keeps the idle ones.
        // Such a gang keeps no nodes on order, because other jobs need nodes on order and would
        // otherwise order more nodes.
        if (!comes && find_places(wanted, all_).empty()) return false;
        if (!comes) std::erase_if(found, [&](std::size_t i) { return !nodes_[i].live; });
        take(wanted, found);
        return missing == 0 || std::ssize(found) == wanted.workers();
    }

    bool needs(AllocationId id) const { return needed_.contains(id); }
    Events orders() { return std::move(orders_); }
    // Returns whether all orders of queues with `min_utilization` would be used enough. If not,
    // sets in `worth` how many of these orders would be.
    bool worthwhile(Worth& worth) const;

  private:
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
    const Worth& worth_;
    std::uint64_t next_;
    Room all_ = known_room(state_, now_);
    std::vector<Node> nodes_{};
    std::map<std::string, Budget> budgets_{};
    std::set<AllocationId> needed_{};
    std::vector<Batch> batches_{};
    Events orders_{};
};

// Adds the live workers with their free capacity.
void Planner::add_workers() {
    std::map<WorkerId, std::pair<int, int>> used;
    for (const JobId id : state_.index.running) {
        for (const Place& place : state_.jobs.at(id).attempt->places) {
            used[place.worker].first += static_cast<int>(place.slots.size());
            used[place.worker].second += static_cast<int>(place.gpus.size()) * place.gpu_percent;
        }
    }
    for (const auto& [id, worker] : state_.workers) {
        if (!takes_work(state_, worker)) continue;
        const auto [slots, gpus] = used[id];
        nodes_.push_back({worker.allocation, worker.slots - slots, kWholeGpu * worker.gpus - gpus,
                          leaves_at(state_, worker), worker.segment, true});
    }
}

// Adds the nodes of allocations whose workers have not joined yet, unless they are overdue.
void Planner::add_expected() {
    for (const auto& [id, a] : state_.allocations) {
        const bool granted = a.phase == AllocationPhase::Granted;
        if (a.releasing || (granted && a.granted_at + kJoinGrace <= now_)) continue;
        const spec::PilotQueue& spec = state_.queues.at(a.queue).spec;
        const Time leaves = (granted ? a.ends_at : now_ + spec.time) - spec.margin();
        for (int i = a.joined; i < spec.nodes; ++i)
            nodes_.push_back({id, spec.slots, kWholeGpu * spec.gpus, leaves});
    }
}

// Returns how many more allocations the queue's GPU-hours allow. The GPU-hours of ended
// allocations, and the full time of the `alive` allocations, are subtracted first.
int affordable(const AllocationQueue& queue, int alive) {
    const spec::PilotQueue& spec = queue.spec;
    const std::int64_t each = spec.time.count() * spec.nodes * spec.gpus;
    if (spec.max_gpu_hours == 0 || each == 0) return 1'000'000;
    const std::int64_t most = std::int64_t{3600} * spec.max_gpu_hours - queue.gpu_seconds;
    return static_cast<int>(std::clamp<std::int64_t>(most / each - alive, 0, 1'000'000));
}

}  // namespace

int most_alive(const AllocationQueue& queue, int alive) {
    const spec::PilotQueue& spec = queue.spec;
    int most = alive + affordable(queue, alive);
    if (spec.max_jobs > 0) most = std::min(most, spec.max_jobs);
    if (spec.max_nodes > 0) most = std::min(most, spec.max_nodes / spec.nodes);
    return most;
}

namespace {

void Planner::add_budget(const std::string& name, const AllocationQueue& queue) {
    if (queue.paused || queue.removing) return;
    Budget budget{.spec = &queue.spec};
    int on_probe = 0;
    for (const auto& [id, a] : state_.allocations) {
        if (a.queue != name) continue;
        ++budget.alive;
        budget.waiting += a.phase != AllocationPhase::Granted;
        on_probe += a.joined == 0;
    }
    budget.most = most_alive(queue, budget.alive);
    budget.orders = std::max(budget.most - budget.alive, 0);
    if (!queue.proven) budget.orders = std::min(budget.orders, 1);
    budget.later = queue.not_before > now_ || (!queue.proven && on_probe > 0);
    budgets_[name] = budget;
}

bool Planner::has_room(const Node& node, const spec::Resources& wanted) const {
    return node.slots >= wanted.slots_per_node &&
           node.gpu_hundredths >= wanted.gpus_per_node * wanted.gpu_percent &&
           has_time_for(node.leaves, wanted, now_);
}

// Returns the first nodes that can hold a member, at most as many as the job wants.
std::vector<std::size_t> Planner::fitting(const spec::Resources& wanted) const {
    if (wanted.segment > 1) return fitting_in_segments(wanted);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < nodes_.size() && std::ssize(found) < wanted.workers(); ++i) {
        if (has_room(nodes_[i], wanted)) found.push_back(i);
    }
    return found;
}

// Like fitting(), but chooses blocks of nodes in one segment, first from the segments with the most
// nodes. A node on order may be in any segment. Returns no nodes that do not complete a block.
std::vector<std::size_t> Planner::fitting_in_segments(const spec::Resources& wanted) const {
    std::map<std::string, std::vector<std::size_t>> known;
    std::vector<std::size_t> anywhere;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!has_room(nodes_[i], wanted)) continue;
        if (!nodes_[i].live)
            anywhere.push_back(i);
        else if (!nodes_[i].segment.empty())
            known[nodes_[i].segment].push_back(i);
    }
    std::vector<std::size_t> found;
    const auto move = [&](std::vector<std::size_t>& from, std::size_t most) {
        for (; most > 0 && !from.empty(); --most) {
            found.push_back(from.back());
            from.pop_back();
        }
        return most;
    };
    for (int block = 0; block < wanted.nodes / wanted.segment; ++block) {
        auto left = static_cast<std::size_t>(wanted.segment);
        const auto fullest = std::ranges::max_element(
            known, {}, [](const auto& item) { return item.second.size(); });
        if (fullest != known.end()) left = move(fullest->second, left);
        move(anywhere, left);
    }
    auto spares = static_cast<std::size_t>(wanted.workers() - wanted.nodes);
    for (auto& [segment, rest] : known) spares = move(rest, spares);
    move(anywhere, spares);
    return found;
}

// Orders the missing nodes from the first queue whose limits could ever allow them; makes as many
// of the orders as the limits allow now. Returns false if the limits of no queue could ever allow
// the nodes.
bool Planner::order(const spec::Resources& wanted, int missing, std::vector<std::size_t>& found) {
    for (auto& [name, budget] : budgets_) {
        const spec::PilotQueue& spec = *budget.spec;
        const bool fits = spec.slots >= wanted.slots_per_node &&
                          spec.gpus >= wanted.gpus_per_node &&
                          has_time_for(now_ + spec.time - spec.margin(), wanted, now_);
        const int count = (missing + spec.nodes - 1) / spec.nodes;
        if (!fits || budget.alive + count > budget.most) continue;
        if (budget.later) return true;
        // True if the queue has no allocation that waits for its grant. A gang wider than the
        // backlog may then exceed the backlog, because nodes for this gang would otherwise never be
        // ordered.
        const bool fresh = budget.waiting == 0;
        int some = std::min(count, budget.orders);
        if (!fresh) some = std::min(some, spec.backlog - budget.waiting);
        if (some > 0 && refused(name, wanted)) continue;
        const std::size_t first = nodes_.size();
        for (; some > 0; --some) place_order(name, budget);
        if (nodes_.size() > first && spec.min_percent > 0)
            batches_.push_back({name, wanted, first, nodes_.size()});
        found = fitting(wanted);
        return true;
    }
    return false;
}

bool Planner::refused(const std::string& name, const spec::Resources& wanted) const {
    const auto found = worth_.find({name, wanted});
    return found != worth_.end() && std::ranges::count_if(batches_, [&](const Batch& batch) {
                                        return batch.queue == name && batch.wanted == wanted;
                                    }) >= found->second;
}

// Returns whether the nodes of a batch would be used enough. The use of one kind, GPUs or CPU
// slots, suffices: if all GPUs are used, the remaining CPU slots may be unusable, and vice versa.
bool Planner::pays(const Batch& batch) const {
    const spec::PilotQueue& spec = *budgets_.at(batch.queue).spec;
    const auto count = static_cast<int>(batch.last - batch.first);
    int slots = 0;
    int gpus = 0;
    for (std::size_t i = batch.first; i < batch.last; ++i) {
        slots += spec.slots - nodes_[i].slots;
        gpus += kWholeGpu * spec.gpus - nodes_[i].gpu_hundredths;
    }
    const auto enough = [&](std::int64_t used, std::int64_t all) {
        return all > 0 && 100 * used >= spec.min_percent * all;
    };
    return enough(slots, count * spec.slots) || enough(gpus, count * kWholeGpu * spec.gpus);
}

bool Planner::worthwhile(Worth& worth) const {
    Worth good;
    bool all = true;
    for (const Batch& batch : batches_) {
        const bool paid = pays(batch);
        good[{batch.queue, batch.wanted}] += paid;
        all = all && paid;
    }
    for (const Batch& batch : batches_) {
        if (!pays(batch)) worth[{batch.queue, batch.wanted}] = good[{batch.queue, batch.wanted}];
    }
    return all;
}

void Planner::place_order(const std::string& name, Budget& budget) {
    const AllocationId id{next_++};
    orders_.push_back(AllocationOrdered{id, name, state_.incarnation, now_});
    const spec::PilotQueue& spec = *budget.spec;
    for (int i = 0; i < spec.nodes; ++i)
        nodes_.push_back({id, spec.slots, kWholeGpu * spec.gpus, now_ + spec.time - spec.margin()});
    ++budget.alive;
    ++budget.waiting;
    --budget.orders;
}

void Planner::take(const spec::Resources& wanted, const std::vector<std::size_t>& found) {
    for (const std::size_t i : found) {
        nodes_[i].slots -= wanted.slots_per_node;
        nodes_[i].gpu_hundredths -= wanted.gpus_per_node * wanted.gpu_percent;
        needed_.insert(nodes_[i].allocation);
    }
}

// Plans the ready jobs in queue order, within the users' limits. Skips the rest of a group once one
// of its jobs cannot be served. The cost therefore depends on what can be served, not on the number
// of jobs.
void serve_ready(const State& state, Time now, Planner& planner) {
    Limits limits(state, now);
    Queue queue(state, now, limits);
    while (const auto id = queue.next()) {
        const Job& job = state.jobs.at(*id);
        const std::vector<int> shapes = allowed_shapes(job, limits, now);
        const auto served = std::ranges::find_if(
            shapes, [&](int i) { return planner.serve(job.spec.shape(i), true); });
        if (served != shapes.end())
            limits.add(job, job.spec.shape(*served));
        else
            queue.drop();
    }
}

// Repeats the simulation without the orders that would be used too little, until there are none.
// Each round starts anew, because the jobs of a dropped order may need another one. The loop ends
// because each round allows fewer orders for some variant.
Planner plan(const State& state, Time now, Worth& worth) {
    for (;;) {
        Planner planner(state, now, worth);
        if (!state.stopped) serve_ready(state, now, planner);
        if (planner.worthwhile(worth)) return planner;
    }
}

// Returns the allocations in which some attempt holds resources.
std::set<AllocationId> held_allocations(const State& state) {
    std::set<AllocationId> held;
    for (const auto& [id, jobs] : state.index.by_worker) {
        const auto worker = state.workers.find(id);
        if (worker != state.workers.end()) held.insert(worker->second.allocation);
    }
    return held;
}

// Returns why an allocation that no waiting job needs is given back now; empty if the allocation
// stays.
std::string idle_reason(const State& state, const Allocation& a, bool held, Time now) {
    if (a.phase != AllocationPhase::Granted) return "no job needs the allocation any more";
    const auto idle = state.queues.at(a.queue).spec.idle;
    if (a.used_at + idle > now || held) return {};
    return "idle for " + std::to_string(idle.count()) + " s";
}

}  // namespace

Events match_supply(const State& state, Time now) {
    if (state.queues.empty()) return {};
    Worth worth;
    Planner planner = plan(state, now, worth);
    for (const auto& [at, id] : state.index.sleeping) {
        if (state.stopped || at > now + kSoon) break;
        const Job& job = state.jobs.at(id);
        const bool comes = !job.held && job.spec.cron.empty();
        if (!comes || dependencies(state, job, state.index) != Held::Yes) continue;
        for (int i = 0; i < job.spec.shapes() && !planner.serve(job.spec.shape(i), false);) ++i;
    }
    Events events;
    const std::set<AllocationId> held = held_allocations(state);
    for (const auto& [id, a] : state.allocations) {
        if (a.releasing || planner.needs(id)) continue;
        const std::string reason = idle_reason(state, a, held.contains(id), now);
        if (!reason.empty()) events.push_back(AllocationReleasing{id, false, reason});
    }
    for (Event& event : planner.orders()) events.push_back(std::move(event));
    return events;
}

std::optional<Time> allocation_wakeup(const State& state, Time now) {
    std::optional<Time> wakeup;
    const auto earliest = [&](Time at) {
        if (at > now && (!wakeup || at < *wakeup)) wakeup = at;
    };
    for (const auto& [name, queue] : state.queues) earliest(queue.not_before);
    for (const auto& [id, a] : state.allocations) {
        if (a.phase != AllocationPhase::Granted || a.releasing) continue;
        const spec::PilotQueue& spec = state.queues.at(a.queue).spec;
        earliest(a.used_at + spec.idle);
        earliest(a.granted_at + kJoinGrace);
    }
    for (const auto& [id, at] : go_back_at(state)) {
        if (!state.allocations.at(id).releasing) earliest(at);
    }
    return wakeup;
}

}  // namespace roll::core
