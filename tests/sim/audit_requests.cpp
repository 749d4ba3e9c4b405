// Audits the requests to running trainings.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {

using namespace std::chrono_literals;

void Auditor::on(const core::TrainingAsked& e) {
    Run& r = run(e.attempt);
    ROLL_CHECK(!r.stopping && e.request.number == r.requested + 1);
    ROLL_CHECK(job(e.attempt.job).spec.kind == spec::JobKind::Train);
    r.requested = e.request.number;
    r.unanswered.emplace(e.request.number, now_);
}
// Checks that each answer has a request, and each request one answer. check() limits how long a
// request may wait.
void Auditor::on(const core::TrainingAnswered& e) {
    ROLL_CHECK(run(e.attempt).unanswered.erase(e.answer.number) == 1);
}
// Checks that no request waits for too long, unless the member that answers has ended.
void Auditor::check_requests(const Run& r) const {
    if (r.asked_at) ROLL_CHECK(now_ - std::max(*r.asked_at, r.since) < 200s);
    if (!r.unanswered.empty() && !r.members.front().ended)
        ROLL_CHECK(now_ - std::max(r.unanswered.begin()->second, r.since) < 200s);
}

}  // namespace roll::sim
