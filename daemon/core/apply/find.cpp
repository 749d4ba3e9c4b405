#include "daemon/core/apply/find.hpp"

namespace roll::core {

Job& open_at(State& s, JobId id) {
    Job& job = at(s.jobs, id);
    ROLL_CHECK(!is_over(job.phase));
    return job;
}

Job& current(State& s, const AttemptKey& key) {
    Job& job = at(s.jobs, key.job);
    ROLL_CHECK(job.attempt && job.attempt->token == key.token);
    return job;
}

Use& use_of(State& s, const Job& job) { return s.use[{job.spec.account, job.user}]; }

}  // namespace roll::core
