#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/apply/clock.hpp"
#include "daemon/core/apply/indexing.hpp"
#include "daemon/core/apply/on.hpp"

namespace roll::core {

void on(State& s, const IncarnationRaised& e) {
    ROLL_CHECK(e.incarnation > s.incarnation);
    s.incarnation = e.incarnation;
    s.next_job = std::max(s.next_job, e.next_job);
    for (auto& [id, worker] : s.workers) worker.quiet = true;
}
void on(State& s, const AdoptingSet& e) { s.adopting = e.adopting; }
// Sets the policy. Before that, decays the users' resource use up to now with the half-life of the
// previous policy.
void on(State& s, const PolicySet& e) {
    for (auto& [user, use] : s.use) {
        use.decayed = use_at(use, e.at, s.policy.half_life);
        use.at = std::max(use.at, e.at);
    }
    s.policy = e.policy;
}
// Sets the names of the existing secrets, and updates the index of jobs that use a secret.
void on(State& s, const SecretsKnown& e) {
    s.secrets = e.names;
    const std::set<JobId> open = s.index.open;
    for (const JobId id : open) {
        if (s.jobs.at(id).spec.secrets.empty()) continue;
        unfile(s, id);
        file(s, id);
    }
}
void on(State& s, const ClockStepped& e) { move_instants(s, std::chrono::milliseconds(e.by_ms)); }
void on(State& s, const UseCarried& e) {
    Use& use = s.use[{e.account, e.user}];
    use.gpu_ms = e.gpu_ms;
    use.decayed = e.decayed;
    use.at = e.at;
}
void on(State& s, const DispatchStopped& e) {
    s.stopped = e.stopped ? std::optional(e.why) : std::nullopt;
}

}  // namespace roll::core
