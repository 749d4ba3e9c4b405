#include <string>

#include <fmt/format.h>

#include "common/spec/check/rules.hpp"
#include "common/spec/job/chain.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/schema/placeholders.hpp"

namespace roll::spec {
namespace {

void check_references(const JobSpec& spec, const std::vector<JobSpec>& before,
                      const std::string& path, std::vector<Problem>& problems) {
    const auto look = [&](const Reference& reference) {
        const JobSpec* const job = earlier_job(before, reference.job);
        const std::string text = fmt::format("{{{}.{}}}", reference.job, reference.what);
        if (job == nullptr && before.empty())
            problems.push_back(
                {path, fmt::format("refers to {}, but is the first job of the chain", text)});
        else if (job == nullptr)
            problems.push_back(
                {path, fmt::format("refers to {}, but no earlier job of the chain is named {}; "
                                   "allowed: `previous`, or an earlier job's name",
                                   text, reference.job)});
        else if (reference.what == "result" && result_directory(*job).empty())
            problems.push_back({path, fmt::format("refers to {}, but {} makes no model; allowed: "
                                                  "{{{}.output}}",
                                                  text, job->name, reference.job)});
        return std::string();
    };
    auto document = read_document(spec.document.text());
    if (!document) return problems.push_back({path, document.error().message});
    document->erase("then");
    replace_everywhere(*document, look);
}

}  // namespace

std::vector<Problem> check_chain(const JobSpec& first) {
    std::vector<Problem> problems;
    if (first.then.empty()) return problems;
    if (first.array)
        problems.push_back(
            {"then", "cannot be used with `array`; submit the later job with `after` instead"});
    check_references(first, {}, "", problems);
    std::vector<JobSpec> before = {first};
    for (std::size_t i = 0; i < first.then.size(); ++i) {
        const JobSpec& spec = first.then[i];
        const std::string path = fmt::format("then[{}]", i);
        if (spec.array || !spec.then.empty())
            problems.push_back(
                {path,
                 "has its own `array` or `then`, which a later job of a chain cannot have; "
                 "remove these keys"});
        if (!spec.account.empty() && spec.account != first.account)
            problems.push_back({path, "has a different account than the first job of the chain"});
        check_references(spec, before, path, problems);
        before.push_back(spec);
    }
    return problems;
}

}  // namespace roll::spec
