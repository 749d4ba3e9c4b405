#include "daemon/core/allocation/planner.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/allocation/allocations.hpp"
#include "daemon/core/facts/availability.hpp"
#include "daemon/core/placement/find_places.hpp"
#include "daemon/core/placement/queue.hpp"

namespace roll::core {

// Adds the live workers with their free capacity.
void Planner::add_workers() {
    std::map<WorkerId, Node> used;
    for (const JobId id : state_.index.running) {
        for (const Place& place : state_.jobs.at(id).attempt->places) {
            Node& sum = used[place.worker];
            sum.slots += static_cast<int>(place.slots.size());
            sum.gpu_hundredths += static_cast<int>(place.gpus.size()) * place.gpu_percent;
            sum.memory += place.memory;
            sum.cpus += place.cpus;
        }
    }
    for (const auto& [id, worker] : state_.workers) {
        if (!takes_work(state_, worker)) continue;
        const Node& sum = used[id];
        ROLL_CHECK(sum.slots <= worker.slots && sum.gpu_hundredths <= kWholeGpu * worker.gpus);
        ROLL_CHECK(sum.memory <= worker.memory && sum.cpus <= worker.cpus);
        nodes_.push_back({.allocation = worker.allocation,
                          .slots = worker.slots - sum.slots,
                          .gpu_hundredths = kWholeGpu * worker.gpus - sum.gpu_hundredths,
                          .memory = worker.memory - sum.memory,
                          .cpus = worker.cpus - sum.cpus,
                          .leaves = leaves_at(state_, worker),
                          .segment = worker.segment,
                          .live = true});
    }
}

// Returns a new node of the queue. The whole capacity of the node is free.
Planner::Node Planner::whole(AllocationId id, const spec::PilotQueue& spec, Time leaves) {
    return {.allocation = id,
            .slots = spec.slots,
            .gpu_hundredths = kWholeGpu * spec.gpus,
            .memory = spec.memory,
            .cpus = cpus_of(spec),
            .leaves = leaves};
}

// Adds the expected nodes: nodes of requested or granted allocations whose workers have not joined
// yet. Leaves out an allocation that was granted more than kJoinGrace ago, because its missing
// workers are no longer expected.
void Planner::add_expected() {
    for (const auto& [id, a] : state_.allocations) {
        const bool granted = a.phase == AllocationPhase::Granted;
        if (a.releasing || a.closed) continue;
        if (granted && a.granted_at + kJoinGrace <= now_) continue;
        const spec::PilotQueue& spec = state_.queues.at(a.queue).spec;
        const Time leaves = (granted ? a.ends_at : now_ + spec.time) - spec.margin();
        for (int i = a.joined; i < spec.nodes; ++i) nodes_.push_back(whole(id, spec, leaves));
    }
}

void Planner::add_budget(const std::string& name, const AllocationQueue& queue) {
    if (queue.paused || queue.removing) return;
    budgets_[name] = budget_of(state_, name, queue, now_);
}

bool Planner::has_room(const Node& node, const spec::Resources& wanted) const {
    return node.slots >= wanted.slots_per_node &&
           node.gpu_hundredths >= wanted.gpus_per_node * wanted.gpu_percent &&
           node.memory >= wanted.memory && node.cpus >= wanted.cpus &&
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

// Returns nodes for a gang that needs each block of `wanted.segment` nodes in one segment. Fills a
// block with nodes of the segment that has the most nodes left. If these are too few, adds nodes
// that are only requested, because their segments are not known yet. The spares may come from any
// segment.
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

// Requests the missing nodes from the first queue whose limits can allow all of them, now or later.
// Makes as many of these requests as the limits allow now. Returns false if there is no such queue.
bool Planner::order(const spec::Resources& wanted, int missing, std::vector<std::size_t>& found) {
    for (auto& [name, budget] : budgets_) {
        const spec::PilotQueue& spec = *budget.spec;
        const int count = (missing + spec.nodes - 1) / spec.nodes;
        if (!offers(spec, wanted) || budget.alive + count > budget.most) continue;
        if (budget.later) return true;
        // `backlog` is the maximum number of the queue's requests that wait for their grant. A gang
        // may exceed `backlog` if no request waits now (`fresh`). Without this exception, a gang
        // that needs more than `backlog` requests would never get its nodes.
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
    const auto found = quotas_.find({name, wanted});
    return found != quotas_.end() && std::ranges::count_if(batches_, [&](const Batch& batch) {
                                         return batch.queue == name && batch.wanted == wanted;
                                     }) >= found->second;
}

// Returns whether the waiting jobs would use the nodes of a batch well: they use at least
// min_percent of the GPUs, the CPU slots, the CPUs or the memory. One of these resources suffices,
// because jobs that use all of one resource may leave the others unusable.
bool Planner::pays(const Batch& batch) const {
    const spec::PilotQueue& spec = *budgets_.at(batch.queue).spec;
    const auto count = static_cast<int>(batch.last - batch.first);
    int slots = 0;
    int gpus = 0;
    int cpus = 0;
    std::int64_t mebibytes = 0;
    for (std::size_t i = batch.first; i < batch.last; ++i) {
        slots += spec.slots - nodes_[i].slots;
        gpus += kWholeGpu * spec.gpus - nodes_[i].gpu_hundredths;
        cpus += cpus_of(spec) - nodes_[i].cpus;
        mebibytes += (spec.memory - nodes_[i].memory) >> 20;
    }
    const auto enough = [&](std::int64_t used, std::int64_t all) {
        return all > 0 && 100 * used >= spec.min_percent * all;
    };
    return enough(slots, count * spec.slots) || enough(gpus, count * kWholeGpu * spec.gpus) ||
           enough(cpus, count * cpus_of(spec)) || enough(mebibytes, count * (spec.memory >> 20));
}

bool Planner::worthwhile(OrderQuota& quotas) const {
    OrderQuota good;
    bool all = true;
    for (const Batch& batch : batches_) {
        const bool paid = pays(batch);
        good[{batch.queue, batch.wanted}] += paid;
        all = all && paid;
    }
    for (const Batch& batch : batches_) {
        if (!pays(batch)) quotas[{batch.queue, batch.wanted}] = good[{batch.queue, batch.wanted}];
    }
    return all;
}

void Planner::place_order(const std::string& name, Budget& budget) {
    ROLL_CHECK(budget.orders > 0 && budget.alive < budget.most);
    const AllocationId id{next_++};
    orders_.push_back(AllocationOrdered{id, name, state_.incarnation, now_});
    const spec::PilotQueue& spec = *budget.spec;
    for (int i = 0; i < spec.nodes; ++i)
        nodes_.push_back(whole(id, spec, now_ + spec.time - spec.margin()));
    ++budget.alive;
    ++budget.waiting;
    --budget.orders;
}

void Planner::take(const spec::Resources& wanted, const std::vector<std::size_t>& found) {
    for (const std::size_t i : found) {
        nodes_[i].slots -= wanted.slots_per_node;
        nodes_[i].gpu_hundredths -= wanted.gpus_per_node * wanted.gpu_percent;
        nodes_[i].memory -= wanted.memory;
        nodes_[i].cpus -= wanted.cpus;
        ROLL_CHECK(nodes_[i].slots >= 0 && nodes_[i].gpu_hundredths >= 0);
        ROLL_CHECK(nodes_[i].memory >= 0 && nodes_[i].cpus >= 0);
        needed_.insert(nodes_[i].allocation);
    }
}

namespace {

// Plans the ready jobs in queue order, within the users' limits. If a job cannot be served, skips
// the other jobs of its group, because these jobs are equal for placement. The cost therefore
// depends on the jobs that are served, not on the number of jobs.
void serve_ready(const State& state, Time now, Planner& planner) {
    Limits limits(state, now);
    Queue queue(state, now, limits);
    while (const auto id = queue.next()) {
        const Job& job = state.jobs.at(*id);
        const std::vector<int> shapes = allowed_variants(job, limits, now);
        const auto served = std::ranges::find_if(
            shapes, [&](int i) { return planner.serve(job.spec.shape(i), true); });
        if (served != shapes.end())
            limits.add(job, job.spec.shape(*served));
        else
            queue.drop();
    }
}

}  // namespace

// worthwhile() finds the allocation requests whose nodes would be used too little. worthwhile()
// also lowers the maximum number of these requests in `quotas`. The next round then plans all jobs
// again, because a job may get its nodes from another queue instead. The loop ends, because each
// round that is not the last lowers a maximum.
Planner plan_ready_jobs(const State& state, Time now, OrderQuota& quotas) {
    for (;;) {
        Planner planner(state, now, quotas);
        if (!state.stopped) serve_ready(state, now, planner);
        if (planner.worthwhile(quotas)) return planner;
    }
}

}  // namespace roll::core
