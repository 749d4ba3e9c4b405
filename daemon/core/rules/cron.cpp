#include "common/spec/schema/cron.hpp"

#include "common/replace.hpp"
#include "daemon/core/facts/dependency.hpp"
#include "daemon/core/placement/limits.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {
namespace {

spec::JobSpec one_of(const Job& job, JobId id) {
    spec::JobSpec spec = job.spec;
    spec.cron.clear();
    spec.begin.reset();
    spec.hold = false;
    spec.output = replaced(spec.output, "{id}", std::to_string(id.value));
    return spec;
}

}  // namespace

Events send_cron_jobs(const State& state, Time now) {
    Events events;
    std::uint64_t next = state.next_job;
    std::map<User, int> sent;
    for (const auto& [at, id] : state.index.sleeping) {
        if (at > now) break;
        const Job& job = state.jobs.at(id);
        if (job.spec.cron.empty()) continue;
        const User user{job.spec.account, job.user};
        const bool room = !too_many_jobs(state, user, sent[user] + 1);
        if (room && !job.held && !is_open(state, job.cron_last)) {
            const JobId fresh{next++};
            events.push_back(JobSubmitted{fresh, "", job.user, one_of(job, fresh), now, {}, id});
            ++sent[user];
        }
        const auto again = spec::next_after(spec::parse_cron(job.spec.cron).value(), now);
        events.push_back(JobBeginChanged{id, again.value_or(Time::max()), now});
    }
    return events;
}

}  // namespace roll::core
