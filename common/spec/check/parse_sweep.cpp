#include "common/spec/check/parse_sweep.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "common/spec/job/sweep.hpp"
#include "common/spec/schema/schema.hpp"

namespace roll::spec {
namespace {

constexpr std::size_t kBadTrialsMax = 5;  // maximum number of trials whose problems are listed

std::string parameters_text(const Json& parameters) {
    std::string text;
    for (const auto& [key, value] : parameters.items())
        text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, dump(value));
    return text;
}

// Returns the value at the path "a.b", or null if there is none.
Json value_at(const Json& document, std::string_view path) {
    const Json* at = &document;
    for (;;) {
        const std::size_t dot = path.find('.');
        const std::string name(path.substr(0, dot));
        if (!at->is_object() || !at->contains(name)) return nullptr;
        at = &(*at)[name];
        if (dot == std::string_view::npos) return *at;
        path.remove_prefix(dot + 1);
    }
}

// Returns the settings `metric`, `mode` and `halving` of a sweep, whose types were checked before.
// If `halving` has no metric or mode, the sweep's metric or mode applies.
Json settings_of(Json sweep) {
    Json settings = {{"metric", sweep["metric"]}, {"mode", sweep["mode"]}};
    if (!sweep.contains("halving")) return settings;
    settings["halving"] = sweep["halving"];
    for (const char* key : {"metric", "mode"}) settings["halving"].emplace(key, settings[key]);
    return settings;
}

// Returns a message if the jobs `first` and `trial` differ in a key that rolld reads, or in the
// default of a key. Such differences are not allowed in a sweep. Returns nullopt if there are none.
// `document` is the document of `first` with the parameters of `trial`.
std::optional<std::string> unequal(const JobSpec& first, JobSpec trial, const Json& document) {
    const Json own = Json::parse(trial.document.text());
    trial.document = first.document;
    if (!(trial == first))
        return "changes what the scheduler reads; the trials may differ only in what their "
               "programs read, such as keys of model, data, train and env";
    const Json differences = Json::diff(document, own);
    if (differences.empty()) return std::nullopt;
    std::string path = differences[0].value("path", "").substr(1);
    std::ranges::replace(path, '/', '.');
    return fmt::format(
        "changes the default of {}, which must be the same for all trials; set {} in the job file",
        path, path);
}

// Parses the trials as jobs and collects their problems.
class TrialReader {
  public:
    TrialReader(Json plain, const ParseTrial& parse) : plain_(std::move(plain)), parse_(parse) {}

    // Parses one trial. Replaces the values in `parameters` by the values of the parsed job, such
    // as absolute paths.
    void read(std::size_t number, Json& parameters) {
        Json document = plain_;
        if (auto bad = set_parameters(document, parameters)) {
            if (++bad_ == 1) problems_.push_back(*std::move(bad));
            return;
        }
        ParsedJob job = parse_(document);
        if (!job.ok()) return add_problems(number, parameters, std::move(job.problems));
        const Json own = Json::parse(job.spec.document.text());
        for (auto& [key, value] : parameters.items()) value = value_at(own, key);
        if (!first_) {
            first_ = std::move(job.spec);
            return;
        }
        Json expected = Json::parse(first_->document.text());
        if (set_parameters(expected, parameters)) return;
        if (auto bad = unequal(*first_, std::move(job.spec), expected))
            add_problems(number, parameters, {{"sweep", *std::move(bad)}});
    }
    ParsedJob job() && {
        if (!problems_.empty() || !first_) return {{}, std::move(problems_)};
        return {*std::move(first_), {}};
    }

  private:
    // Adds the problems of trial `number`. Each message names the trial's parameters. Adds nothing
    // if kBadTrialsMax earlier trials had problems.
    void add_problems(std::size_t number, const Json& parameters, std::vector<Problem> more) {
        if (++bad_ > kBadTrialsMax) return;
        for (Problem& problem : more) {
            const bool known = std::ranges::any_of(problems_, [&](const Problem& one) {
                return one.path == problem.path &&
                       one.message.starts_with(problem.message + " (trial ");
            });
            if (known) continue;
            problem.message += fmt::format(" (trial {}: {})", number, parameters_text(parameters));
            problems_.push_back(std::move(problem));
        }
    }

    Json plain_;
    const ParseTrial& parse_;
    std::optional<JobSpec> first_{};
    std::vector<Problem> problems_{};
    std::size_t bad_ = 0;
};

// Returns the problems of the section `sweep` itself, and sets its defaults.
std::vector<Problem> check_section(Json& sweep) {
    const OrderedJson& schema = job_schema()["properties"]["sweep"];
    std::vector<Problem> problems = check(schema, sweep);
    for (Problem& problem : problems) problem = at_path("sweep", std::move(problem));
    if (problems.empty()) fill_defaults(schema, sweep);
    return problems;
}

}  // namespace

ParsedJob parse_sweep(const Json& document, const ParseTrial& parse) {
    Json plain = document;
    Json sweep = std::move(plain["sweep"]);
    plain.erase("sweep");
    ParsedJob parsed;
    parsed.problems = check_section(sweep);
    for (const char* key : {"array", "cron"}) {
        if (plain.contains(key))
            parsed.problems.push_back(
                {key, "cannot be used with `sweep`, because a sweep is an array of jobs"});
    }
    if (!parsed.ok()) return parsed;
    Json trials = draw_trials(sweep, parsed.problems);
    if (!parsed.ok()) return parsed;
    const std::string limit =
        sweep.contains("at_once") ? fmt::format("%{}", sweep["at_once"].get<int>()) : "";
    plain["array"] = fmt::format("0-{}{}", trials.size() - 1, limit);
    TrialReader reader(std::move(plain), parse);
    for (std::size_t i = 0; i < trials.size(); ++i) reader.read(i, trials[i]);
    parsed = std::move(reader).job();
    if (!parsed.ok()) return parsed;
    Json whole = Json::parse(parsed.spec.document.text());
    whole["sweep"] = settings_of(std::move(sweep));
    whole["sweep"]["trials"] = std::move(trials);
    parsed.spec.document = whole.dump();
    return parsed;
}

}  // namespace roll::spec
