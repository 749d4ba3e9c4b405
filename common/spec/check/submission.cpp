#include "common/spec/check/submission.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/spec/check/document_size.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/job/staged_files.hpp"
#include "common/spec/job/sweep.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/schema.hpp"

namespace roll::spec {
namespace {

// Fails with the first problem, if there is one.
Result<void> refuse(const std::vector<Problem>& problems) {
    if (problems.empty()) return {};
    return fail(ErrorCode::InvalidArgument, sentence(problems.front()));
}

// Fails if a key of a training job is still `auto`.
Result<void> check_auto(const JobSpec& spec, const Json& document) {
    if (!spec.trains()) return {};
    for (const auto& [path, name] :
         {std::pair("/parallel/layout", "parallel.layout"),
          std::pair("/train/micro_batch_size", "train.micro_batch_size")}) {
        if (key_at(document, path) != "auto") continue;
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} of {} is auto, which only rollctl can replace", name, spec.name),
            "submit the job with rollctl, or give the sizes that `rollctl plan` chooses");
    }
    return {};
}

// Checks that the section `sweep` of an array has a list with a mapping for each task, and that no
// trial sets `files`.
Result<void> check_trials(const JobSpec& spec, const Json& document) {
    if (!spec.array) return {};
    ROLL_TRY(const std::vector<int> indices, array_indices(spec.array->indices));
    const auto sweep = document.find("sweep");
    if (sweep == document.end()) return {};
    const Json trials = sweep->is_object() ? sweep->value("trials", Json()) : Json();
    if (trials.size() != indices.size() || trials.size() > kTrialsMax || !can_set(trials, document))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("sweep has a damaged list of trials; allowed: one mapping of keys "
                                "for each of the {} tasks",
                                indices.size()));
    for (const Json& trial : trials)
        for (const auto& [path, value] : trial.items())
            if (has_files(spec) && path.starts_with("files"))
                return fail(ErrorCode::InvalidArgument,
                            "a trial of the sweep sets files; give `files` to the whole job");
    return {};
}

// Checks the list `files`, which rolld and the workers read.
Result<void> check_list_of_files(const JobSpec& spec, const Json& document) {
    if (!has_files(spec) || !document.contains("files")) return {};
    const Json& files = document["files"];
    std::vector<Problem> problems = check(job_schema()["properties"]["files"], files);
    for (Problem& problem : problems) problem.path = "files" + problem.path;
    if (problems.empty()) problems = check_files(Json{{"files", files}});
    return refuse(problems);
}

}  // namespace

Result<void> check_submission(const JobSpec& spec) {
    ROLL_TRY(const Json document, read_document(spec.document.text()));
    ROLL_TRY_VOID(check_auto(spec, document));
    ROLL_TRY_VOID(refuse(undeliverable(document)));
    ROLL_TRY_VOID(check_variants(document, spec.variants.size()));
    if (!spec.export_document.empty()) ROLL_TRY_VOID(read_document(spec.export_document));
    ROLL_TRY_VOID(check_trials(spec, document));
    ROLL_TRY_VOID(check_list_of_files(spec, document));
    for (const JobSpec& next : spec.then) ROLL_TRY_VOID(check_submission(next));
    return {};
}

}  // namespace roll::spec
