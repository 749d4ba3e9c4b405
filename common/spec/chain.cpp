// Expands `then:` of a job file and the references to earlier jobs of the chain.
#include "common/spec/chain.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/spec/document.hpp"

namespace roll::spec {
namespace {

struct Reference {
    std::string job;  // "previous", or a job's name
    std::string what;
};

// Replaces each "{NAME.id}", "{NAME.output}" and "{NAME.result}" in the text by the result of
// visit(reference).
template <class Visit>
std::string replace_references(const std::string& text, const Visit& visit) {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
        const std::size_t end = text.find_first_of("{}", at + 1);
        if (end == std::string::npos || text[end] != '}') continue;
        const std::string inside = text.substr(at + 1, end - at - 1);
        const std::size_t dot = inside.rfind('.');
        if (dot == std::string::npos || dot == 0) continue;
        const Reference reference{inside.substr(0, dot), inside.substr(dot + 1)};
        if (reference.what != "id" && reference.what != "output" && reference.what != "result")
            continue;
        out += text.substr(from, at - from) + visit(reference);
        from = end + 1;
    }
    return out + text.substr(from);
}

template <class Visit>
void replace_everywhere(Json& value, const Visit& visit) {
    if (value.is_string()) value = replace_references(value.get<std::string>(), visit);
    if (!value.is_array() && !value.is_object()) return;
    for (Json& inner : value) replace_everywhere(inner, visit);
}

// Returns the earlier job of a chain that `name` refers to; nullptr if there is none.
const JobSpec* named(const std::vector<JobSpec>& before, const std::string& name) {
    if (before.empty()) return nullptr;
    if (name == "previous") return &before.back();
    const auto found = std::ranges::find(before.rbegin(), before.rend(), name, &JobSpec::name);
    return found == before.rend() ? nullptr : &*found;
}

// Returns the directory of the model that the job makes; empty if the job makes no model.
std::string result_of(const JobSpec& spec) {
    if (!spec.export_document.empty()) return spec.output + "/export/hf";
    const auto document = read_document(spec.document.text());
    const Json part = document ? document->value(name_of(spec.kind), Json()) : Json();
    const Json target = part.is_object() ? part.value("target", Json()) : Json();
    return target.is_string() ? target.get<std::string>() : "";
}

void check_references(const JobSpec& spec, const std::vector<JobSpec>& before,
                      const std::string& path, std::vector<Problem>& problems) {
    const auto look = [&](const Reference& reference) {
        const JobSpec* const job = named(before, reference.job);
        const std::string text = fmt::format("{{{}.{}}}", reference.job, reference.what);
        if (job == nullptr && before.empty())
            problems.push_back(
                {path, fmt::format("refers to {}, but is the first job of the chain", text)});
        else if (job == nullptr)
            problems.push_back(
                {path, fmt::format("refers to {}, but no earlier job of the chain is named {}; "
                                   "allowed: `previous`, or an earlier job's name",
                                   text, reference.job)});
        else if (reference.what == "result" && result_of(*job).empty())
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

void resolve_id(std::string& output, JobId id) {
    for (auto at = output.find("{id}"); at != std::string::npos; at = output.find("{id}", at))
        output.replace(at, 4, std::to_string(id.value));
}

}  // namespace

bool is_reference(const std::string& path) {
    bool first = false;
    replace_references(path, [&](const Reference& reference) {
        first |= path.starts_with("{" + reference.job + "." + reference.what + "}");
        return std::string();
    });
    return first;
}

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

std::vector<JobSpec> chain_of(const JobSpec& first, JobId id) {
    std::vector<JobSpec> jobs(1, first);
    jobs[0].then.clear();
    // The output of a cron job keeps its "{id}", because each copy that the schedule queues has its
    // own id.
    if (first.cron.empty()) resolve_id(jobs[0].output, id);
    for (JobSpec spec : first.then) {
        const After::Condition condition =
            jobs.back().export_document.empty() ? After::Condition::Ok : After::Condition::Exported;
        spec.after.push_back({condition, JobId{id.value + jobs.size() - 1}});
        const auto resolve = [&](const Reference& reference) -> std::string {
            const JobSpec* const job = named(jobs, reference.job);
            if (job == nullptr) return "";
            if (reference.what == "output") return job->output;
            if (reference.what == "result") return result_of(*job);
            return std::to_string(id.value + static_cast<std::uint64_t>(job - jobs.data()));
        };
        resolve_id(spec.output, JobId{id.value + jobs.size()});
        spec.output = replace_references(spec.output, resolve);
        if (auto document = read_document(spec.document.text())) {
            replace_everywhere(*document, resolve);
            spec.document = document->dump();
        }
        jobs.push_back(std::move(spec));
    }
    return jobs;
}

}  // namespace roll::spec
