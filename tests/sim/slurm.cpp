#include "tests/sim/slurm.hpp"

#include <algorithm>
#include <utility>

#include "daemon/slurm/commands.hpp"

namespace roll::sim {

using slurm::Submission;

std::string node_name(const SlurmJob& job, int index) {
    return "s" + std::to_string(index) + "." + job.id + "." + job.key;
}

pilots::Outcome FakeSlurm::refuse(const pilots::Submit& order) const {
    return pilots::Submitted{order.allocation, Submission::Refused, "", "invalid"};
}

pilots::Outcome FakeSlurm::unsure(const pilots::Submit& order) const {
    return pilots::Submitted{order.allocation, Submission::Unknown, "", "timed out"};
}

pilots::Outcome FakeSlurm::submit(const pilots::Submit& order, bool accepted, int now) {
    SlurmJob job;
    job.id = std::to_string(next_id_++);
    job.key = order.key;
    job.queue = order.queue;
    job.begins_at = now + random_.between(0, 60);
    jobs_.push_back(job);
    if (!accepted) return unsure(order);
    return pilots::Submitted{order.allocation, Submission::Accepted, job.id, ""};
}

// Returns the job's state as squeue shows it. Sometimes it is a transient or wrong state.
std::string FakeSlurm::state_of(const SlurmJob& job, bool faults, int now) const {
    if (faults && random_.percent(3)) return "COMPLETING";
    if (faults && random_.percent(1)) return random_.percent(50) ? "NODE_FAIL" : "COMPLETED";
    if (faults && job.state == "RUNNING" && now < job.suspended_until) return "SUSPENDED";
    return job.state;
}

pilots::Outcome FakeSlurm::list(bool faults, int now) const {
    if (away(now) || (faults && random_.percent(15)))
        return pilots::Polled{fail(ErrorCode::Unavailable, "socket timed out")};
    std::vector<slurm::QueueRow> rows;
    for (const SlurmJob& job : jobs_) {
        const bool old = !job.alive() && now > job.ends_at + 60;  // after MinJobAge
        if (old || job.forgotten || (faults && random_.percent(5))) continue;
        slurm::QueueRow row;
        row.id = job.id;
        row.state = state_of(job, faults, now);
        row.phase = slurm::phase_of(row.state);
        row.comment = slurm::comment_of(job.key);
        row.nodes = job.queue.nodes - static_cast<int>(job.down.size());
        if (job.state == "RUNNING") row.end = 100'000 + job.ends_at;
        rows.push_back(std::move(row));
    }
    return pilots::Polled{std::move(rows)};
}

// Cancels the job with this id and key. A later job with the same id is not affected.
pilots::Outcome FakeSlurm::cancel(const pilots::Cancel& errand, bool faults, int now) {
    if (away(now) || (faults && random_.percent(20)))
        return pilots::Cancelled{errand.key, "timed out"};
    for (SlurmJob& job : jobs_) {
        if (job.id != errand.slurm_job || job.key != errand.key || job.forgotten) continue;
        if (job.state == "PENDING") job.state = "CANCELLED";
        if (job.state == "RUNNING") job.ends_at = 0;  // the job ends in its next second
    }
    return pilots::Cancelled{errand.key, ""};
}

// Returns the states of nodes. Some are missing, and some are wrong.
pilots::Outcome FakeSlurm::tell(const pilots::AskNodes& errand, bool faults, int now) const {
    if (away(now) || (faults && random_.percent(5)))
        return pilots::NodesTold{fail(ErrorCode::Unavailable, "socket timed out")};
    std::vector<slurm::NodeRow> rows;
    for (const SlurmJob& job : jobs_) {
        for (int i = 0; i < job.queue.nodes && !job.forgotten; ++i) {
            const std::string name = node_name(job, i);
            if (std::ranges::count(errand.nodes, name) == 0) continue;
            if (faults && random_.percent(5)) continue;
            const bool lie = faults && random_.percent(5);
            const std::string state = job.down.contains(i) != lie ? "DOWN*+DRAIN" : "MIXED";
            rows.push_back({name, state, slurm::is_down(state)});
        }
    }
    return pilots::NodesTold{std::move(rows)};
}

void FakeSlurm::complete(const std::string& id, const std::string& key, int now) {
    for (SlurmJob& job : jobs_)
        if (job.id == id && job.key == key && job.state == "RUNNING") job.ends_at = now;
}

// Loses all state, like `slurmctld -c`: no job is known, ids start anew, and slurmd ends the
// processes later.
void FakeSlurm::lose_state() {
    for (SlurmJob& job : jobs_) {
        job.forgotten = true;
        if (job.state == "PENDING") job.state = "CANCELLED";
    }
    next_id_ = 1;
}

void FakeSlurm::mishap(int now) {
    if (random_.between(1, 600) == 1) lose_state();
    if (random_.between(1, 400) == 1) away_until_ = now + random_.between(10, 200);
    for (SlurmJob& job : jobs_)
        if (job.state == "RUNNING") mishap(job, now);
}

void FakeSlurm::mishap(SlurmJob& job, int now) {
    const int fate = random_.between(1, 1500);
    if (fate == 1) job.ends_at = now;  // preempted, cancelled by somebody, or killed after a signal
    if (fate == 2) job.ends_at = std::min(job.ends_at, now + random_.between(1, 60));
    if (fate == 2) job.warned_at = now;
    if (fate == 3) job.ends_at = std::min(job.ends_at, now + 40);  // its time limit is reduced
    if (fate == 4) job.requeued = true;
    if (fate == 5) job.suspended_until = now + random_.between(5, 90);
    if (job.forgotten && random_.percent(10)) job.ends_at = now;
}

// Marks a node of the job as down. The job ends with its last node, and continues with fewer
// (--no-kill).
void FakeSlurm::set_down(SlurmJob& job, int index, int now) {
    job.down.insert(index);
    if (job.state != "RUNNING" || std::ssize(job.down) < job.queue.nodes) return;
    job.state = "NODE_FAIL";
    job.ends_at = now;
}

// Makes a node fail. Either it dies with all its processes, and Slurm notices later. Or Slurm only
// believes that it is dead, and reports that at once, while the processes continue until slurmd
// ends them.
void FakeSlurm::lose_node(const std::string& name, int now) {
    for (SlurmJob& job : jobs_) {
        for (int i = 0; i < job.queue.nodes && job.state == "RUNNING"; ++i) {
            if (node_name(job, i) != name || job.failed.contains(i) || job.down.contains(i))
                continue;
            if (random_.percent(50)) {
                job.failed[i] = now + random_.between(1, 50);
                died_.push_back(name);
                continue;
            }
            set_down(job, i, now);
            if (job.ended_by_slurmd_at == 0) job.ended_by_slurmd_at = now + random_.between(1, 150);
            if (random_.percent(70)) cut_.push_back(name);
        }
    }
}

void FakeSlurm::live_nodes(SlurmJob& job, bool faults, int now, Changes& changes) {
    for (const auto& [index, noticed] : job.failed)
        if ((now >= noticed || !faults) && !away(now)) set_down(job, index, now);
    if (job.ended_by_slurmd_at == 0 || (faults && now < job.ended_by_slurmd_at)) return;
    job.ended_by_slurmd_at = 0;
    if (job.state == "NODE_FAIL") return changes.ended.push_back(&job);
    for (const int index : job.down) changes.died.push_back(node_name(job, index));
}

FakeSlurm::Changes FakeSlurm::live(bool faults, int now) {
    Changes changes;
    changes.died = std::exchange(died_, {});
    changes.cut = std::exchange(cut_, {});
    if (faults) mishap(now);
    if (!faults) away_until_ = 0;
    for (SlurmJob& job : jobs_) {
        live_nodes(job, faults, now, changes);
        const bool runs = job.state == "RUNNING";
        if (runs && job.warned_at == now) changes.warned.push_back(&job);
        if (runs && faults && job.suspended_until > now) changes.suspended.push_back(&job);
        if (job.state == "PENDING" && now >= job.begins_at && !away(now)) {
            job.state = "RUNNING";
            job.ends_at = now + static_cast<int>(job.queue.time.count());
            // Slurm may send the signal up to a minute early.
            job.warned_at =
                job.ends_at - static_cast<int>(job.queue.margin().count()) - random_.between(0, 60);
            changes.began.push_back(&job);
        } else if (runs && job.requeued && !job.forgotten) {
            job.state = "PENDING";
            job.requeued = false;
            job.failed.clear();
            job.down.clear();
            job.ended_by_slurmd_at = 0;
            job.begins_at = now + random_.between(1, 120);
            changes.ended.push_back(&job);
        } else if (runs && (now >= job.ends_at || (!faults && job.forgotten))) {
            job.state = now >= job.ends_at ? "TIMEOUT" : "CANCELLED";
            job.ends_at = now;
            changes.ended.push_back(&job);
        }
    }
    return changes;
}

bool FakeSlurm::any_alive() const { return std::ranges::any_of(jobs_, &SlurmJob::alive); }

}  // namespace roll::sim
