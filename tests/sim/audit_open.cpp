// The auditor's model of job groups: jobs are added to an open group until it is closed.
#include "common/check.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using core::JobPhase;

// Checks a job that is added to a group. The group may be closed already if the new job is the
// export of a job in the group.
void Auditor::check_into(const core::JobSubmitted& e) {
    const Job& open = job(*e.spec.into);
    ROLL_CHECK(open.spec.open && open.user == e.user);
    if (!e.spec.source_job) ROLL_CHECK(!open.closed && !open.over);
}

void Auditor::on(const core::JobClosed& e) {
    ROLL_CHECK(job(e.job).spec.open && !job(e.job).closed && !job(e.job).over);
    job(e.job).closed = true;
}

// Checks the end of a group. A closed group ends with its last job, and succeeds if all its jobs
// did, without those that successive halving stopped. Any group may also end because a user
// cancelled it.
void Auditor::check_open_end(const core::JobEnded& e) const {
    const Job& open = jobs_.at(e.job);
    if (open.cancelled) return ROLL_CHECK(e.phase == JobPhase::Cancelled);
    ROLL_CHECK(open.closed);
    bool well = true;
    for (const auto& [id, j] : jobs_) {
        if (j.spec.into != e.job) continue;
        ROLL_CHECK(j.over);
        well = well && (j.over == JobPhase::Done || stopped_by_halving(j));
    }
    ROLL_CHECK(e.phase == (well ? JobPhase::Done : JobPhase::Failed));
}

// Checks that a group ends as soon as it can, and that cancelling it cancels the jobs in it. The
// export of a job that succeeded may still follow.
void Auditor::check_open(JobId id, const Job& open) const {
    bool any = false;
    for (const auto& [other, j] : jobs_) {
        if (j.spec.into != id || j.over) continue;
        any = true;
        ROLL_CHECK(!open.cancelled || j.cancelled || is_export(j));
    }
    ROLL_CHECK(any || open.over || !open.closed);
}

bool Auditor::is_export(const Job& j) const {
    return j.spec.source_job && jobs_.at(*j.spec.source_job).spec.into == j.spec.into;
}

}  // namespace roll::sim
