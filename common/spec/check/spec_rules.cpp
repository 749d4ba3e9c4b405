#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "common/spec/check/problems.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/schema/cron.hpp"

namespace roll::spec {
namespace {

void check_retry(const Retry& retry, std::vector<Problem>& problems) {
    constexpr std::int64_t kTriesMax = 1'000'000'000;  // stands for unlimited retries
    check_range("retry", "infra", retry.infra, 0, kTriesMax, problems);
    check_range("retry", "app", retry.app, 0, kTriesMax, problems);
    check_range("retry", "timeout", retry.timeout, 0, kTriesMax, problems);
    check_range("retry", "preempted", retry.preempted, 0, kTriesMax, problems);
    check_range("retry", "no_progress", retry.no_progress, 0, kTriesMax, problems);
    check_range("retry", "backoff", retry.backoff.count(), 0, kSecondsMax, problems);
    check_range("retry", "backoff_max", retry.backoff_max.count(), 0, kSecondsMax, problems);
}

void check_length(const char* key, const std::string& text, std::size_t most,
                  std::vector<Problem>& problems) {
    if (text.size() > most)
        problems.push_back({key, fmt::format("has {} bytes; allowed: {}", text.size(), most)});
}

void check_sizes(const JobSpec& spec, std::vector<Problem>& problems) {
    constexpr std::int64_t kPriorityMax = 1'000'000;
    constexpr std::size_t kNameMax = 256, kPathMax = 4096;
    append(problems, resource_problems(spec.resources, "resources"));
    for (std::size_t i = 0; i < spec.variants.size(); ++i)
        append(problems,
               resource_problems(spec.variants[i], fmt::format("resources.variants[{}]", i)));
    check_retry(spec.retry, problems);
    check_range("", "priority", spec.priority, -kPriorityMax, kPriorityMax, problems);
    if (spec.hang_after)
        check_range("", "hang_after", spec.hang_after->count(), 0, kSecondsMax, problems);
    check_length("name", spec.name, kNameMax, problems);
    check_length("output", spec.output, kPathMax, problems);
    for (const auto& [key, names] : {std::pair("needs", &spec.needs), {"secrets", &spec.secrets}})
        if (names->size() > kSecretsMax)
            problems.push_back({key, fmt::format("has {} names; allowed: at most {}", names->size(),
                                                 kSecretsMax)});
}

// Checks the keys that decide how many jobs the specification makes, and when it makes them.
void check_form(const JobSpec& spec, std::vector<Problem>& problems) {
    const bool plain = !spec.array && spec.then.empty() && spec.after.empty();
    if (spec.array && spec.array->limit < 0)
        problems.push_back(
            {"array.limit", fmt::format("is {}; allowed: 0 or more", spec.array->limit)});
    if (spec.array && spec.array->index != -1)
        problems.push_back(
            {"array.index", fmt::format("is {}; remove it: only rolld sets the index of a task",
                                        spec.array->index)});
    if (spec.open && (spec.into || !plain || !spec.cron.empty()))
        problems.push_back({"",
                            "a job group (`rollctl open`) cannot have `into`, `after`, `array`, "
                            "`cron` or `then`"});
    if (spec.cron.empty()) return;
    if (const auto cron = parse_cron(spec.cron); !cron)
        problems.push_back({"", cron.error().message});
    if (!plain || spec.deadline)
        problems.push_back(
            {"cron",
             "cannot be used with after, array, deadline or then; keep only one of these keys"});
    if (spec.into)
        problems.push_back({"cron", "cannot be used with into; keep only one of these keys"});
}

}  // namespace

std::vector<Problem> spec_problems(const JobSpec& spec) {
    std::vector<Problem> problems;
    check_sizes(spec, problems);
    check_form(spec, problems);
    append(problems, check_chain(spec));
    for (std::size_t i = 0; i < spec.then.size(); ++i)
        for (Problem& problem : spec_problems(spec.then[i]))
            problems.push_back(at_path(fmt::format("then[{}]", i), std::move(problem)));
    return problems;
}

Result<void> check_spec(const JobSpec& spec) {
    const std::vector<Problem> problems = spec_problems(spec);
    if (problems.empty()) return {};
    return fail(ErrorCode::InvalidArgument, sentence(problems.front()));
}

}  // namespace roll::spec
