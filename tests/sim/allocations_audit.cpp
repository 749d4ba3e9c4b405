// The auditor's model of an allocation queue: the limits hold, no allocation is ordered or held
// without need, and none is kept beyond its time.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// A job whose back-off ends within this time keeps existing allocations.
constexpr auto kSoon = 300s;

void Auditor::on(const core::QueueAdded& e) { queue_ = e.queue; }
void Auditor::on(const core::QueuePaused& e) { paused_ = e.paused; }

void Auditor::on(const core::AllocationOrdered& e) {
    ROLL_CHECK(queue_ && !paused_ && !stopped_ && e.incarnation == incarnation_);
    ROLL_CHECK(allocations_.emplace(e.allocation, Allocation{}).second);
    const auto alive = std::ssize(allocations_);
    ROLL_CHECK(alive <= queue_->max_jobs);
    ROLL_CHECK(queue_->max_nodes == 0 || alive * queue_->nodes <= queue_->max_nodes);
    ROLL_CHECK(100 * could_use() >= queue_->min_percent);
}

// Returns an upper bound of the share of one allocation that the waiting jobs could use.
double Auditor::could_use() const {
    double slots = 0;
    double gpus = 0;
    double cpus = 0;
    double memory = 0;
    for (const auto& [id, j] : jobs_) {
        if (!allowed(j)) continue;
        for (int i = 0; i < j.spec.shapes(); ++i) {
            slots += j.spec.shape(i).slots();
            gpus += j.spec.shape(i).gpu_hundredths();
            cpus += j.spec.shape(i).cpus * j.spec.shape(i).workers();
            memory += static_cast<double>(j.spec.shape(i).memory) * j.spec.shape(i).workers();
        }
    }
    const auto share = [&](double wanted, double of_node) {
        return of_node == 0 ? 0 : wanted / (queue_->nodes * of_node);
    };
    return std::max({share(slots, queue_->slots), share(gpus, queue_->gpus * 100),
                     share(cpus, queue_->slots),
                     share(memory, static_cast<double>(queue_->memory))});
}
void Auditor::on(const core::AllocationGranted& e) {
    Allocation& a = allocations_.at(e.allocation);
    if (!a.granted) a.used_at = e.at;
    a.granted = true;
    a.ends_at = e.ends_at;
}
void Auditor::on(const core::AllocationReturned& e) {
    allocations_.at(e.allocation).granted = false;
}
void Auditor::on(const core::AllocationClosed& e) {
    Allocation& a = allocations_.at(e.allocation);
    ROLL_CHECK(!a.closed && !a.releasing);
    a.closed = true;
}
void Auditor::on(const core::AllocationReleasing& e) {
    Allocation& a = allocations_.at(e.allocation);
    ROLL_CHECK(!a.releasing && !e.reason.empty());
    a.releasing = true;
}
void Auditor::on(const core::AllocationEnded& e) {
    ROLL_CHECK(allocations_.erase(e.allocation) == 1);
    for (const auto& [id, worker] : workers_) ROLL_CHECK(worker.allocation != e.allocation);
}
void Auditor::on(const core::PilotJoined& e) {
    const Allocation& a = allocations_.at(e.allocation);
    ROLL_CHECK(a.granted && !a.releasing);
    workers_.at(e.worker).allocation = e.allocation;
    allocations_.at(e.allocation).used_at = now_;
}

void Auditor::note_used(const Run& r) {
    for (const Member& m : r.members) {
        const auto worker = workers_.find(m.place.worker);
        if (worker == workers_.end() || worker->second.allocation.value == 0) continue;
        allocations_.at(worker->second.allocation).used_at = now_;
    }
}

bool Auditor::goes_back(const Worker& worker) const {
    return worker.allocation.value != 0 && allocations_.at(worker.allocation).releasing;
}

bool Auditor::is_closed(const Worker& worker) const {
    return worker.allocation.value != 0 && allocations_.at(worker.allocation).closed;
}

// Returns whether a job that starts now can use its whole time limit on the worker.
bool Auditor::has_time(const Worker& worker, const spec::Resources& wanted, Time now) const {
    if (worker.allocation.value == 0) return true;
    return now + wanted.time <= allocations_.at(worker.allocation).ends_at - queue_->margin();
}

bool Auditor::is_busy(AllocationId id) const {
    for (const auto& [job_id, j] : jobs_) {
        if (!j.run) continue;
        for (const Member& m : j.run->members) {
            const auto worker = workers_.find(m.place.worker);
            if (worker != workers_.end() && worker->second.allocation == id) return true;
        }
    }
    return false;
}

// Returns how long the slowest job in the allocation needs to save and leave, at most a quarter of
// the allocation's time.
Time::duration Auditor::save_need(AllocationId id) const {
    Time::duration most{};
    for (const auto& [job_id, j] : jobs_) {
        if (!j.run) continue;
        const auto in_it = [&](const Member& m) {
            const auto worker = workers_.find(m.place.worker);
            return worker != workers_.end() && worker->second.allocation == id;
        };
        if (std::ranges::any_of(j.run->members, in_it)) most = std::max(most, slow_save(j));
    }
    return std::min<Time::duration>(most, queue_->time / 4);
}

void Auditor::check_allocations(Time now) const {
    if (!queue_) return;
    int wanted = 0;
    for (const auto& [id, j] : jobs_) {
        if (!allowed(j) || (!j.was_due && j.not_before > now + kSoon)) continue;
        int most = 0;
        for (int i = 0; i < j.spec.shapes(); ++i) most = std::max(most, j.spec.shape(i).workers());
        wanted += (most + queue_->nodes - 1) / queue_->nodes;
    }
    int ordered = 0;
    for (const auto& [id, a] : allocations_) {
        if (a.releasing) continue;
        ROLL_CHECK(!a.closed || is_busy(id));
        if (!a.granted) ++ordered;
        if (!a.granted) continue;
        ROLL_CHECK(now < a.ends_at - std::max<Time::duration>(queue_->margin(), save_need(id)));
        const bool idle = now >= a.used_at + queue_->idle && !is_busy(id);
        if (wanted == 0) ROLL_CHECK(!idle);
    }
    ROLL_CHECK(ordered <= wanted);
}

}  // namespace roll::sim
