// Expands `then:` of a job file and the references to earlier jobs of the chain.
#include "common/spec/job/chain.hpp"

#include <algorithm>
#include <utility>

#include "common/replace.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/schema/placeholders.hpp"

namespace roll::spec {

std::vector<JobSpec> chain_of(JobSpec first, JobId id) {
    std::vector<JobSpec> then = std::exchange(first.then, {});
    // The output of a cron job keeps its "{id}", because each copy that the schedule queues has its
    // own id.
    if (first.cron.empty()) first.output = replaced(first.output, "{id}", std::to_string(id.value));
    std::vector<JobSpec> jobs;
    jobs.reserve(1 + then.size());
    jobs.push_back(std::move(first));
    for (JobSpec& spec : then) {
        const After::Condition condition =
            jobs.back().export_document.empty() ? After::Condition::Ok : After::Condition::Exported;
        spec.after.push_back({condition, JobId{id.value + jobs.size() - 1}});
        const auto resolve = [&](const Reference& reference) -> std::string {
            const JobSpec* const job = earlier_job(jobs, reference.job);
            if (job == nullptr) return "";
            if (reference.what == "output") return job->output;
            if (reference.what == "result") return result_directory(*job);
            return std::to_string(id.value + static_cast<std::uint64_t>(job - jobs.data()));
        };
        spec.output = replaced(spec.output, "{id}", std::to_string(id.value + jobs.size()));
        spec.output = replace_references(spec.output, resolve);
        if (auto document = read_document(spec.document.text())) {
            replace_everywhere(*document, resolve);
            spec.document = document->dump();
        }
        jobs.push_back(std::move(spec));
    }
    return jobs;
}

const JobSpec* earlier_job(const std::vector<JobSpec>& before, const std::string& name) {
    if (before.empty()) return nullptr;
    if (name == "previous") return &before.back();
    const auto found = std::ranges::find(before.rbegin(), before.rend(), name, &JobSpec::name);
    return found == before.rend() ? nullptr : &*found;
}

std::string result_directory(const JobSpec& spec) {
    if (!spec.export_document.empty()) return spec.output + "/export/hf";
    const auto document = read_document(spec.document.text());
    const Json part = document ? document->value(name_of(spec.kind), Json()) : Json();
    const Json target = part.is_object() ? part.value("target", Json()) : Json();
    return target.is_string() ? target.get<std::string>() : "";
}

}  // namespace roll::spec
