#include "daemon/api/outputs.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/spec/job/array_tasks.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::api {
namespace {

bool waits_for(const spec::JobSpec& spec, JobId id, const core::Job& job) {
    return std::ranges::any_of(spec.after, [&](const spec::After& after) {
        return after.job == id || (job.array != JobId{} && after.job == job.array);
    });
}

// Returns whether the output directory of a job has something that a new training would replace. A
// training that failed before its first checkpoint leaves nothing of value.
bool has_results(const core::Job& job) {
    return job.spec.trains() && (job.phase == core::JobPhase::Done || !job.checkpoints.empty());
}

}  // namespace

void Outputs::build(const core::State& state) {
    constexpr std::size_t kSlack = 1024;
    if (writers_ && writers_->size() <= 2 * built_ + kSlack) return;
    writers_.emplace();
    for (const auto& [id, job] : state.jobs)
        if (!core::is_over(job.phase) || has_results(job)) note(id, job);
    built_ = writers_->size();
}

void Outputs::note(JobId id, const core::Job& job) {
    if (writers_ && !job.spec.output.empty()) (*writers_)[hash64(job.spec.output)] = id;
}

Result<void> Outputs::check_one(const core::State& state, const spec::JobSpec& spec,
                                const std::string& output, const std::string& submission) {
    const std::uint64_t hash = hash64(output);
    if (checked_.try_emplace(hash, submission).first->second != submission)
        return fail(
            ErrorCode::Refused,
            fmt::format("output is {}, but another job that is being submitted writes there",
                        output),
            "put {id} into `output` to give each job its own directory");
    const auto known = writers_->find(hash);
    if (known == writers_->end()) return {};
    const auto found = state.jobs.find(known->second);
    if (found == state.jobs.end()) return {};
    const auto& [id, job] = *found;
    if (job.spec.output != output || waits_for(spec, id, job)) return {};
    if (core::is_over(job.phase)) {
        if (!spec.trains() || spec.source_job == id || !has_results(job)) return {};
        return fail(
            ErrorCode::Refused,
            fmt::format("output is {}, but job {} has left its results there, and a new training "
                        "would replace them",
                        output, id.value),
            fmt::format("use another `output`, such as one with {{id}}; or continue job {0}: "
                        "rollctl resume {0}; or, to replace the results: --after any:{0}",
                        id.value));
    }
    return fail(
        ErrorCode::Refused,
        fmt::format("output is {}, but job {} writes there and has not ended", output, id.value),
        fmt::format("put {{id}} into `output` to give each job its own directory; or wait for that "
                    "job: --after any:{}",
                    id.value));
}

Result<void> Outputs::check(const core::State& state, const spec::JobSpec& spec,
                            const std::string& submission) {
    const bool own = spec.output.empty() || spec.output.find("{id}") != std::string::npos;
    if (own || !spec.cron.empty()) return {};
    build(state);
    if (!spec.array) return check_one(state, spec, spec.output, submission);
    ROLL_TRY(const std::vector<int> indices, spec::array_indices(spec.array->indices));
    if (indices.size() > 1 && spec.output.find("{index}") == std::string::npos)
        return fail(ErrorCode::Refused,
                    fmt::format("output is {} for each of the {} tasks of the array", spec.output,
                                indices.size()),
                    "put {index} or {id} into `output`");
    for (const int index : indices) {
        spec::JobSpec bare;
        bare.output = spec.output;
        bare.array = spec.array;
        ROLL_TRY_VOID(check_one(state, spec, spec::array_task(bare, index).output, submission));
    }
    return {};
}

}  // namespace roll::api
