#include "common/spec/check/check_job.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/spec/check/defaults.hpp"
#include "common/spec/check/document_size.hpp"
#include "common/spec/check/parse_sweep.hpp"
#include "common/spec/check/problems.hpp"
#include "common/spec/check/read_job.hpp"
#include "common/spec/check/rules.hpp"
#include "common/spec/check/sizes.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/train/train.hpp"

namespace roll::spec {
namespace {

bool is_utf8(const std::string& text) {
    if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return true;
    const auto written = [&](Json::error_handler_t how) {
        return Json(text).dump(-1, ' ', false, how);
    };
    return written(Json::error_handler_t::ignore) == written(Json::error_handler_t::replace);
}

bool is_text(const std::string& text) { return is_utf8(text) && text.find('\0') == text.npos; }

bool is_all_text(const Json& value) {
    if (value.is_string()) return is_text(value.get_ref<const std::string&>());
    if (value.is_object())
        return std::ranges::all_of(value.items(), [](const auto& item) {
            return is_text(item.key()) && is_all_text(item.value());
        });
    return !value.is_array() || std::ranges::all_of(value, is_all_text);
}

void find_bytes(const Json& value, const std::string& path, std::vector<Problem>& found) {
    const auto refuse = [&](const std::string& text) {
        if (is_text(text)) return;
        // The text must have no NUL: programs and the kernel would read only the part before the
        // NUL.
        found.push_back(
            {path, fmt::format("is {}; allowed: {}", dump(Json(text)),
                               is_utf8(text) ? "text without the character NUL" : "UTF-8 text")});
    };
    if (value.is_string()) refuse(value.get_ref<const std::string&>());
    if (value.is_array()) {
        for (std::size_t i = 0; i < value.size(); ++i) {
            find_bytes(value[i], fmt::format("{}[{}]", path, i), found);
        }
    }
    if (!value.is_object()) return;
    for (const auto& [key, inner] : value.items()) {
        refuse(key);
        // A key that is not UTF-8 cannot be printed in a path, so skip the value of this key.
        if (!is_utf8(key)) continue;
        find_bytes(inner, path.empty() ? key : path + "." + key, found);
    }
}

// Returns a problem for each string that is not UTF-8. The JSON library throws when it writes such
// a string. The bytes are not replaced, because a replacement could change the arguments of a
// program.
std::vector<Problem> not_utf8(const Json& document) {
    std::vector<Problem> problems;
    if (is_all_text(document)) return problems;
    find_bytes(document, "", problems);
    return problems;
}

// Returns the smallest number of ranks of the job's resources and of their variants.
int fewest_ranks(const Json& document) {
    const Resources base = read_resources(document["resources"]);
    int ranks = base.nodes * base.ranks_per_node();
    for (const Resources& variant : read_variants(document["resources"]))
        ranks = std::min(ranks, variant.nodes * variant.ranks_per_node());
    return ranks;
}

// Returns whether the document was accepted before, perhaps by an earlier version. The document of
// a resumed job was accepted when its first job was submitted, together with `then`.
bool is_stored(const Json& document) { return document.value("kind", Json()) == "resume"; }

// Returns the problem that train_spec() finds, or else the problems of train.faults unless the
// document is stored. Requires that the document has passed all other checks.
std::vector<Problem> unreadable(Json document, bool stored) {
    // rollctl replaces these keys by chosen values before it sends the job. Until then, check other
    // values in place of `auto`.
    if (document["parallel"].value("layout", Json()) == "auto")
        document["parallel"].erase("layout");
    if (document["train"]["micro_batch_size"] == "auto") document["train"]["micro_batch_size"] = 1;
    const auto spec = train_spec(document.dump());
    if (!spec) return {{"", spec.error().message}};
    if (stored) return {};
    return fault_problems(*spec, fewest_ranks(document));
}

// Checks the sizes in the document once for each variant, with the variant's resources in place of
// the job's resources. Returns the problems that impossible_sizes() finds.
std::vector<Problem> impossible_variants(const Json& document) {
    std::vector<Problem> problems;
    const Json variants = document["resources"].value("variants", Json::array());
    for (int i = 1; i <= static_cast<int>(variants.size()); ++i) {
        for (Problem& problem : impossible_sizes(with_variant(document, i)))
            problems.push_back({fmt::format("resources.variants[{}]", i - 1),
                                fmt::format("{} {}", problem.path, problem.message)});
    }
    return problems;
}

ParsedJob check_document(const Json& given, const std::string& base_directory, bool stored);

// Parses the jobs of `then`. In `document`, replaces the documents of these jobs by documents with
// all defaults.
std::vector<JobSpec> read_chain(Json& document, const std::string& base, bool stored,
                                std::vector<Problem>& problems) {
    std::vector<JobSpec> jobs;
    if (!document.contains("then") || !document["then"].is_array()) return jobs;
    for (std::size_t i = 0; i < document["then"].size(); ++i) {
        if (!document["then"][i].is_object()) continue;  // check() reports it
        ParsedJob job = check_document(document["then"][i], base, stored);
        for (Problem& problem : job.problems)
            problems.push_back(at_path(fmt::format("then[{}]", i), std::move(problem)));
        if (!job.ok()) continue;
        document["then"][i] = Json::parse(job.spec.document.text());
        jobs.push_back(std::move(job.spec));
    }
    return jobs;
}

// Returns a problem for each missing input file. Does not check a resumed job's original inputs.
// Such a job reads the model and the tokenizer from its checkpoint, and the tokens from its token
// files. The ranks check these files.
std::vector<Problem> missing_inputs(const OrderedJson& schema, const Json& document) {
    std::vector<Problem> problems = missing_files(schema, document);
    if (!is_stored(document)) return problems;
    std::erase_if(problems, [](const Problem& problem) {
        const std::string& path = problem.path;
        return path == "tokenizer" || path == "model.from" || path.starts_with("data.");
    });
    return problems;
}

// `stored`: the document is a later job of a chain whose first job is stored.
ParsedJob check_document(const Json& given, const std::string& base_directory, bool stored) {
    ParsedJob parsed{.spec = {}, .problems = undeliverable(given)};
    // If the document is too large, skip the other checks, because their messages could quote
    // megabytes of the document.
    if (parsed.ok()) parsed.problems = not_utf8(given);
    if (!parsed.ok()) return parsed;
    // The copy has the values of the document's text: a number that is not finite becomes null.
    auto document = parse_json(given.dump());
    if (!document) return {.spec = {}, .problems = {{"", document.error().message}}};
    const auto check_trial = [&](const Json& trial) { return check_job(trial, base_directory); };
    if (document->is_object() && document->contains("sweep"))
        return parse_sweep(*document, check_trial);
    parsed.problems = check(job_schema(), *document);
    if (!document->is_object()) return parsed;
    stored = stored || is_stored(*document);
    fill_job(*document, base_directory);
    append(parsed.problems, missing_inputs(job_schema(), *document));
    fill_tokenizer(*document);
    if (parsed.ok()) append(parsed.problems, job_problems(*document, stored));
    if (trains(*document)) {
        append(parsed.problems, impossible_sizes(*document));
        if (parsed.ok()) append(parsed.problems, impossible_variants(*document));
        if (parsed.ok()) append(parsed.problems, unreadable(*document, stored));
    }
    std::vector<JobSpec> then = read_chain(*document, base_directory, stored, parsed.problems);
    if (!parsed.ok()) return parsed;
    parsed.spec = read_spec(*document);
    parsed.spec.then = std::move(then);
    parsed.problems = spec_problems(parsed.spec);
    return parsed;
}

}  // namespace

ParsedJob check_job(const Json& given, const std::string& base_directory) {
    return check_document(given, base_directory, /*stored=*/false);
}

}  // namespace roll::spec
