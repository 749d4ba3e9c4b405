#include "common/spec/job/export_job.hpp"

#include <fmt/format.h>

#include "common/replace.hpp"
#include "common/spec/job/document.hpp"

namespace roll::spec {

JobSpec export_job(const JobSpec& parent, JobId parent_id) {
    // The converted model goes into the parent's directory, next to the checkpoints. The output of
    // the export job itself is the subdirectory export/, so its logs cannot overwrite the parent's
    // logs.
    const std::string parent_output =
        replaced(parent.output, "{id}", fmt::format("{}", parent_id.value));

    Json document = read_document(parent.export_document).value_or(Json::object());
    document["name"] = parent.name + "-export";
    document["kind"] = name_of(JobKind::Convert);
    Json& convert = document["convert"];
    if (!convert.is_object()) convert = Json::object();
    convert["source_job"] = parent_id.value;
    convert["target"] = parent_output + "/export/hf";

    JobSpec job;
    job.name = document["name"];
    job.kind = JobKind::Convert;
    job.retry = parent.retry;
    job.priority = parent.priority;
    job.account = parent.account;
    job.into = parent.into;
    job.output = parent_output + "/export";
    job.source_job = parent_id;
    job.document = document.dump();
    return job;
}

}  // namespace roll::spec
