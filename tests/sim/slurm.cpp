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

// Now and then a state on its way to another, or one that is not true.
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
        const bool old = !job.alive() && now > job.ends_at + 60;  // MinJobAge
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

// By id and name: a job that has got the id since is left alone.
pilots::Outcome FakeSlurm::cancel(const pilots::Cancel& errand, bool faults, int now) {
    if (away(now) || (faults && random_.percent(20)))
        return pilots::Cancelled{errand.key, "timed out"};
    for (SlurmJob& job : jobs_) {
        if (job.id != errand.slurm_job || job.key != errand.key || job.forgotten) continue;
        if (job.state == "PENDING") job.state = "CANCELLED";
        if (job.state == "RUNNING") job.ends_at = 0;  // in its next second
    }
    return pilots::Cancelled{errand.key, ""};
}

// Some are left out, or said to be as they are not.
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

// As `slurmctld -c`: nothing is known any more, ids begin anew, slurmd ends what runs a little
// later.
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
    if (fate == 1) job.ends_at = now;  // preempted, or somebody's scancel, KillWait after a signal
    if (fate == 2) job.ends_at = std::min(job.ends_at, now + random_.between(1, 60));
    if (fate == 2) job.warned_at = now;
    if (fate == 3) job.ends_at = std::min(job.ends_at, now + 40);  // cut short
    if (fate == 4) job.requeued = true;
    if (fate == 5) job.suspended_until = now + random_.between(5, 90);
    if (job.forgotten && random_.percent(10)) job.ends_at = now;
}

// Without its last node it ends; with others it goes on (--no-kill).
void FakeSlurm::set_down(SlurmJob& job, int index, int now) {
    job.down.insert(index);
    if (job.state != "RUNNING" || std::ssize(job.down) < job.queue.nodes) return;
    job.state = "NODE_FAIL";
    job.ends_at = now;
}

// It dies with all its processes, and Slurm notices a while later; or Slurm has lost it, and says
// at once that it is dead, while they run on until slurmd hears of it, if it ever does in time.
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
            // Slurm's signal may come a minute early.
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
