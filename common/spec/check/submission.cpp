#include "common/spec/check/submission.hpp"

#include <fmt/format.h>

#include "common/spec/check/document_size.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/job/sweep.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::spec {

Result<void> check_documents(const JobSpec& spec) {
    ROLL_TRY(const Json document, read_document(spec.document.text()));
    if (const auto problems = undeliverable(document); !problems.empty())
        return fail(ErrorCode::InvalidArgument,
                    problems.front().path + " " + problems.front().message);
    if (!has_variants(document, spec.variants.size()))
        return fail(ErrorCode::InvalidArgument,
                    "the job's document is damaged: its `variants` do not match the variants in "
                    "the job's specification");
    if (!spec.export_document.empty()) ROLL_TRY_VOID(read_document(spec.export_document));
    for (const JobSpec& next : spec.then) ROLL_TRY_VOID(check_documents(next));
    return {};
}

Result<void> check_trials(const JobSpec& spec) {
    if (!spec.array) return {};
    ROLL_TRY(const std::vector<int> indices, array_indices(spec.array->indices));
    ROLL_TRY(const Json document, parse_json(spec.document.text()));
    const auto sweep = document.find("sweep");
    if (!document.is_object() || sweep == document.end()) return {};
    const Json trials = sweep->is_object() ? sweep->value("trials", Json()) : Json();
    if (trials.size() == indices.size() && trials.size() <= kTrialsMax && can_set(trials, document))
        return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("sweep has a damaged list of trials; allowed: one mapping of keys for "
                            "each of the {} tasks",
                            indices.size()));
}

}  // namespace roll::spec
