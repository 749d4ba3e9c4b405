#include "common/check.hpp"
#include "common/spec/job/export_job.hpp"
#include "daemon/core/rules/rules.hpp"

namespace roll::core {

Events queue_exports(const State& state, Time now) {
    Events events;
    std::uint64_t next = state.next_job;
    for (const JobId id : state.index.to_export) {
        const Job& job = state.jobs.at(id);
        ROLL_CHECK(job.phase == JobPhase::Done && !job.export_job);
        const JobId export_id{next++};
        events.push_back(
            JobSubmitted{export_id, "", job.user, spec::export_job(job.spec, id), now});
        events.push_back(ExportQueued{id, export_id});
    }
    return events;
}

}  // namespace roll::core
