#include "tests/sim/slurm.hpp"

#include <algorithm>

#include "daemon/slurm/commands.hpp"

namespace roll::sim {

using slurm::Submission;

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

pilots::Outcome FakeSlurm::list(bool faults, int now) const {
    if (faults && random_.percent(15))
        return pilots::Polled{fail(ErrorCode::Unavailable, "socket timed out")};
    std::vector<slurm::QueueRow> rows;
    for (const SlurmJob& job : jobs_) {
        const bool old = !job.alive() && now > job.ends_at + 60;  // MinJobAge
        if (old || job.forgotten || (faults && random_.percent(5))) continue;
        slurm::QueueRow row;
        row.id = job.id;
        row.state = faults && random_.percent(3) ? "COMPLETING" : job.state;
        row.phase = slurm::phase_of(row.state);
        row.comment = slurm::comment_of(job.key);
        if (job.state == "RUNNING") row.end = 100'000 + job.ends_at;
        rows.push_back(std::move(row));
    }
    return pilots::Polled{std::move(rows)};
}

// By id and name: a job that has got the id since is left alone.
pilots::Outcome FakeSlurm::cancel(const pilots::Cancel& errand, bool faults) {
    if (faults && random_.percent(20)) return pilots::Cancelled{errand.key, "timed out"};
    for (SlurmJob& job : jobs_) {
        if (job.id != errand.slurm_job || job.key != errand.key || job.forgotten) continue;
        if (job.state == "PENDING") job.state = "CANCELLED";
        if (job.state == "RUNNING") job.ends_at = 0;  // in its next second
    }
    return pilots::Cancelled{errand.key, ""};
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
    for (SlurmJob& job : jobs_) {
        if (job.state != "RUNNING") continue;
        const int fate = random_.between(1, 1500);
        if (fate == 1) job.ends_at = now;                              // preempted
        if (fate == 2) job.ends_at = std::min(job.ends_at, now + 40);  // cut short
        if (fate == 3) job.requeued = true;
        if (job.forgotten && random_.percent(10)) job.ends_at = now;
    }
}

FakeSlurm::Changes FakeSlurm::live(bool faults, int now) {
    Changes changes;
    if (faults) mishap(now);
    for (SlurmJob& job : jobs_) {
        if (job.state == "PENDING" && now >= job.begins_at) {
            job.state = "RUNNING";
            job.ends_at = now + static_cast<int>(job.queue.time.count());
            changes.began.push_back(&job);
        } else if (job.state == "RUNNING" && job.requeued && !job.forgotten) {
            job.state = "PENDING";
            job.requeued = false;
            job.begins_at = now + random_.between(1, 120);
            changes.ended.push_back(&job);
        } else if (job.state == "RUNNING" && (now >= job.ends_at || (!faults && job.forgotten))) {
            job.state = now >= job.ends_at ? "TIMEOUT" : "CANCELLED";
            job.ends_at = now;
            changes.ended.push_back(&job);
        }
    }
    return changes;
}

bool FakeSlurm::any_alive() const { return std::ranges::any_of(jobs_, &SlurmJob::alive); }

}  // namespace roll::sim
