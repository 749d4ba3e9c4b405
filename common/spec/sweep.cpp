#include "common/spec/sweep.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/check.hpp"
#include "common/spec/schema.hpp"

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
// default of a key; else nullopt. The trials of a sweep must not differ in these. `document` is the
// document of `first` with the parameters of `trial`.
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
    TrialReader(Json plain, std::string base) : plain_(std::move(plain)), base_(std::move(base)) {}

    // Parses one trial. Replaces the values in `parameters` by the values of the parsed job, such
    // as absolute paths.
    void read(std::size_t number, Json& parameters) {
        Json document = plain_;
        if (auto bad = set_parameters(document, parameters)) {
            if (++bad_ == 1) problems_.push_back(*std::move(bad));
            return;
        }
        ParsedJob job = parse_job(document.dump(), base_);
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
    // Adds the problems of trial `number` and names the trial's parameters in them. Adds nothing if
    // kBadTrialsMax earlier trials had problems.
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
    std::string base_;
    std::optional<JobSpec> first_{};
    std::vector<Problem> problems_{};
    std::size_t bad_ = 0;
};

// Returns whether `trials` is a list of mappings whose keys can be set in the document. A trial
// cannot set `sweep`, because Trials::document() writes into it.
bool can_set(const Json& trials, Json document) {
    const auto fits = [&](const Json& trial) {
        if (!trial.is_object()) return false;
        for (const auto& [path, value] : trial.items())
            if (path == "sweep" || path.starts_with("sweep.")) return false;
        return !set_parameters(document, trial);
    };
    return trials.is_array() && std::ranges::all_of(trials, fits);
}

// Returns the problems of the section `sweep` itself, and sets its defaults.
std::vector<Problem> check_section(Json& sweep) {
    const OrderedJson& schema = job_schema()["properties"]["sweep"];
    std::vector<Problem> problems = check(schema, sweep);
    for (Problem& problem : problems)
        problem.path = problem.path.empty() ? "sweep" : "sweep." + problem.path;
    if (problems.empty()) fill_defaults(schema, sweep);
    return problems;
}

}  // namespace

std::optional<Problem> set_parameters(Json& document, const Json& parameters) {
    for (const auto& [path, value] : parameters.items()) {
        Json* at = &document;
        std::string_view rest = path;
        for (;;) {
            const std::size_t dot = rest.find('.');
            const std::string name(rest.substr(0, dot));
            if (name.empty() || !(at->is_object() || at->is_null()))
                return Problem{"sweep", fmt::format("has the key {}; no part of this path may be "
                                                    "empty, and all parts but the last one must "
                                                    "name mappings",
                                                    path)};
            at = &(*at)[name];
            if (dot == std::string_view::npos) break;
            rest.remove_prefix(dot + 1);
        }
        *at = value;
    }
    return std::nullopt;
}

ParsedJob parse_sweep(const Json& document, const std::string& base_directory) {
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
    TrialReader reader(std::move(plain), base_directory);
    for (std::size_t i = 0; i < trials.size(); ++i) reader.read(i, trials[i]);
    parsed = std::move(reader).job();
    if (!parsed.ok()) return parsed;
    Json whole = Json::parse(parsed.spec.document.text());
    whole["sweep"] = settings_of(std::move(sweep));
    whole["sweep"]["trials"] = std::move(trials);
    parsed.spec.document = whole.dump();
    return parsed;
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

std::optional<Trials> Trials::of(const std::string& text) {
    if (text.find(R"("trials":)") == std::string::npos) return std::nullopt;
    auto document = parse_json(text);
    if (!document || !document->is_object() || !document->contains("sweep")) return std::nullopt;
    const auto indices = document->value("sweep", Json());
    if (!indices.is_object() || !indices.value("trials", Json()).is_array()) return std::nullopt;
    Trials all;
    all.trials_ = std::move((*document)["sweep"]["trials"]);
    (*document)["sweep"].erase("trials");
    all.common_ = *std::move(document);
    if (!can_set(all.trials_, all.common_)) return std::nullopt;
    return all;
}

std::string Trials::document(std::size_t trial) const {
    ROLL_CHECK(trial < trials_.size());
    Json document = common_;
    set_parameters(document, trials_[trial]);
    Json& sweep = document["sweep"];
    sweep["trial"] = trial;
    sweep["parameters"] = trials_[trial];
    if (trial == 0) sweep["trials"] = trials_;
    return document.dump();
}

}  // namespace roll::spec
