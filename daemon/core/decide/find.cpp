#include "daemon/core/decide/find.hpp"

namespace roll::core {

tl::unexpected<Error> no_such_job(JobId id) {
    return fail(ErrorCode::NotFound, "there is no job " + std::to_string(id.value),
                "rollctl jobs -a");
}

const Attempt* current(const State& s, const AttemptKey& key) {
    const Job* job = find(s.jobs, key.job);
    return job && job->attempt && job->attempt->token == key.token ? &*job->attempt : nullptr;
}

const Place* member(const State& s, const AttemptKey& key, WorkerId worker) {
    const Attempt* attempt = current(s, key);
    return attempt == nullptr ? nullptr : attempt->place_on(worker);
}

}  // namespace roll::core
