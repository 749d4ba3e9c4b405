#include "cli/submit/job_file.hpp"

#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cli/foreign/hub.hpp"
#include "cli/job/toml_file.hpp"
#include "cli/slurm/directives.hpp"
#include "cli/slurm/sbatch.hpp"
#include "cli/submit/adapter_settings.hpp"
#include "cli/submit/checks.hpp"
#include "cli/submit/job_sizes.hpp"
#include "cli/submit/model_check.hpp"
#include "common/files.hpp"
#include "common/replace.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/train/preference.hpp"
#include "common/split.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kBySet = 0;  // line number that marks a key set by --set

// Makes a source from a script. The job gets a copy of the script's text, so that later changes
// to the file do not affect the job.
Result<Source> script_source(const std::string& text, const std::string& file) {
    if (has_directives(text)) {
        ROLL_TRY(SbatchJob job, read_batch_script(text, file, {}, {}));
        return std::move(job.source);
    }
    ROLL_TRY(Source source, command_source({file}));
    source.label = file;
    source.document["script"] = text;
    ROLL_TRY(const JobOptions options, read_directives(text, file));
    ROLL_TRY_VOID(apply_options(options, source.document));
    return source;
}

// Returns the name of the other program for which this document seems to be written; nullopt if
// there is none. The document's top-level keys decide (x-foreign in the schema).
std::optional<std::string> foreign_format(const Json& document) {
    for (const OrderedJson& format : spec::job_schema()["x-foreign"]) {
        double found = 0;
        for (const OrderedJson& key : format["keys"])
            if (document.is_object() && document.contains(key.get<std::string>())) ++found;
        if (found >= format["least"].get<double>()) return format["name"].get<std::string>();
    }
    return std::nullopt;
}

using Lines = std::map<std::string, int>;

// Returns the line number of each key. Used only for sources with problems, because finding the
// lines takes as long as reading the file.
Lines key_lines_of(const Source& source) {
    Lines lines = source.lines;
    if (!source.yaml) return lines;
    auto of_text = yaml::key_lines(*source.yaml);
    if (source.document_index < of_text.size()) lines.merge(of_text[source.document_index]);
    if (!source.foreign) return lines;
    for (const ForeignKey& one : source.foreign->honoured)
        for (const std::string& path : one.sets)
            if (lines.contains(one.key)) lines.emplace(path, lines[one.key]);
    return lines;
}

// Returns a prefix such as "line 7: " for the key at `path`. If the file does not contain this key,
// the line is that of the key's nearest parent in the file. Returns "" if the file contains no
// parent of the key either.
std::string line_of(const Lines& lines, std::string path) {
    while (!path.empty()) {
        const auto found = lines.find(path);
        if (found != lines.end())
            return found->second == kBySet ? "--set " : fmt::format("line {}: ", found->second);
        const std::size_t end = path.find_last_of(".[");
        path.resize(end == std::string::npos ? 0 : end);
    }
    return "";
}

// If the document is a configuration of another program, replaces it by a Roll job file.
Result<void> translate_foreign(Source& source) {
    if (!is_foreign(source.document)) return {};
    // The other programs resolve relative paths against the working directory.
    ROLL_TRY(source.base, working_directory());
    source.foreign = std::make_shared<const Foreign>(translate(source.document, source.base));
    set_global_batch(*source.foreign, source.document);
    return {};
}

// Parses JSON. If an object has a key twice, sets `twice` to this key. Returns a discarded value if
// the text is not JSON.
Json parse_object(std::string_view text, std::optional<std::string>& twice) {
    std::vector<std::set<std::string>> keys;  // of each object around the current place
    const auto note = [&](int /*depth*/, Json::parse_event_t event, const Json& value) {
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event == Json::parse_event_t::key && !keys.back().insert(value).second)
            twice = value.get<std::string>();
        return true;
    };
    return Json::parse(text, note, /*allow_exceptions=*/false);
}

// Reads JSON: one object per line. Skips empty lines, comments and the separator "---". Returns
// nullopt if any other line is not a JSON object. Fails if an object has a key twice.
Result<std::optional<std::vector<Json>>> read_json(std::string_view text, const std::string& file) {
    std::vector<Json> documents;
    int number = 0;
    for (const std::string& line : split_at(text, '\n')) {
        ++number;
        const std::size_t begin = line.find_first_not_of(" \t\r");
        if (begin == std::string_view::npos || line[begin] == '#' || line == "---") continue;
        std::optional<std::string> twice;
        Json json = parse_object(line, twice);
        if (!json.is_object()) return std::nullopt;
        if (twice)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{}:{}: duplicate key {}", file, number, *twice));
        documents.push_back(std::move(json));
    }
    return documents;
}

constexpr const char* kProgramHint = "rollctl submit -- PROGRAM ARGUMENT... submits a program";

// Reads YAML. If the text is not YAML and the file's name does not end like that of a YAML file,
// the hint says how to submit a program.
Result<std::vector<Json>> read_yaml(const std::string& text, const std::string& file) {
    auto documents = yaml::read(text, file);
    if (!documents && file != "-" && !file.ends_with(".yaml") && !file.ends_with(".yml"))
        documents.error().hint = kProgramHint;
    return documents;
}

// Returns a note if data.attention asks for attention across documents, but the objective keeps the
// samples of a sequence apart; an empty text otherwise.
std::string attention_note(const Json& document) {
    const auto at = [&](const char* pointer) {
        const Json::json_pointer path(pointer);
        return document.contains(path) ? document[path] : Json();
    };
    const std::string objective = spec::objective_name(at("/objective"));
    const bool apart =
        spec::is_preference(objective) || (objective == "sft" && at("/data/packing") != "wrapped");
    if (!apart || at("/data/attention") != "across_documents") return "";
    return fmt::format(
        "data.attention across_documents has no effect: with objective {}, a token attends only to "
        "its own sample{}",
        objective,
        objective == "sft" ? "; data.packing wrapped lets it attend to earlier samples" : "");
}

// Returns the label of a job that standard input contains: the name of the job, if it has one.
std::string piped_label(const Json& document) {
    const bool named =
        document.is_object() && document.contains("name") && document["name"].is_string();
    return named ? fmt::format("job {}", document["name"].get<std::string>()) : "standard input";
}

}  // namespace

Result<std::string> read_job_text(const std::string& file) {
    if (file == "-") return read_file("/dev/stdin");
    std::error_code error;
    if (fs::is_directory(file, error)) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} is a directory; allowed: a job file (YAML, JSON or TOML) or a script "
                        "that starts with #!",
                        file),
            fmt::format("rollctl submit {}/*.yaml", fs::path(file).lexically_normal().string()));
    }
    if (fs::is_character_file(file, error) && fs::path(file).filename() != "stdin") {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} is a device; allowed: a job file (YAML, JSON or TOML) or a script "
                        "that starts with #!",
                        file),
            "rollctl submit - reads the job file from standard input");
    }
    auto text = read_file(file);
    if (!text && !fs::path(file).has_extension()) text.error().hint = kProgramHint;
    return text;
}

Result<std::vector<Source>> read_job_file(const std::string& file) {
    ROLL_TRY(const std::string text, read_job_text(file));
    return job_sources(text, file);
}

Result<std::vector<Source>> job_sources(const std::string& text, const std::string& file) {
    if (text.starts_with("#!")) {
        ROLL_TRY(Source script, script_source(text, file));
        return std::vector{std::move(script)};
    }
    fs::path here = "/";
    if (!fs::path(file).is_absolute()) {
        ROLL_TRY(here, working_directory());
    }
    const fs::path folder = file == "-" ? here : (here / file).parent_path();
    const std::string base = folder.lexically_normal();
    if (file.ends_with(".toml")) {
        ROLL_TRY(TomlFile toml, read_toml(text, file));
        return std::vector<Source>{{file, std::move(toml.document), base, std::move(toml.lines)}};
    }
    ROLL_TRY(auto documents, read_json(text, file));
    std::shared_ptr<const std::string> yaml;  // text of a YAML file; null if the file is JSON
    if (!documents) {
        ROLL_TRY_VOID(check_sizes(text, file));
        ROLL_TRY(documents, read_yaml(text, file));
        yaml = std::make_shared<const std::string>(text);
    }
    std::vector<Source> sources;
    for (std::size_t i = 0; i < documents->size(); ++i) {
        Json& document = (*documents)[i];
        if (document.is_null()) continue;
        const std::string label = file == "-" ? piped_label(document)
                                  : documents->size() == 1
                                      ? file
                                      : fmt::format("{}[{}]", file, sources.size());
        sources.push_back({label, std::move(document), base, {}, yaml, i});
        ROLL_TRY_VOID(translate_foreign(sources.back()));
    }
    if (sources.empty()) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} contains no job: it is empty or has only comments; a job needs "
                                "at least `name` and `kind`",
                                file == "-" ? "standard input" : file),
                    "see docs/job-file.md for all keys; rollctl submit -- PROGRAM needs no file");
    }
    return sources;
}

Result<void> override_keys(const JobOptions& options, Source& source) {
    for (const std::string& assignment : options.sets)
        source.lines[assignment.substr(0, assignment.find('='))] = kBySet;
    return apply_options(options, source.document);
}

Result<void> apply_options(const JobOptions& options, Source& source) {
    ROLL_TRY_VOID(override_keys(options, source));
    if (source.foreign && !source.lines.contains("train.global_batch_size"))
        set_global_batch(*source.foreign, source.document);
    const bool asked = !source.stored || source.lines.contains("data.attention");
    if (std::string note = attention_note(source.document); asked && !note.empty())
        source.notes.push_back(std::move(note));
    ROLL_TRY_VOID(use_hub_cache(source.document, source.base, source.notes));
    return use_adapter_settings(source.document, source.base, source.notes);
}

std::vector<std::string> notes_of(const Source& source) {
    std::vector<std::string> notes = source.notes;
    if (!source.foreign) return notes;
    notes.push_back(
        fmt::format("{} is a configuration of {}; Roll reads it as a job file "
                    "(docs/foreign-files.md):",
                    source.label, foreign_programs()));
    for (std::string& line : describe(*source.foreign, source.document))
        notes.push_back(std::move(line));
    return notes;
}

Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources, bool queues) {
    std::vector<spec::JobSpec> specs;
    std::string problems;
    ModelCheck models(/*config_suffices=*/!queues);
    for (const Source& source : sources) {
        spec::ParsedJob job = spec::check_job(source.document, source.base);
        const bool is_refused = source.foreign && !source.foreign->problems.empty();
        // Do not report missing keys. A key may be missing only because the key of the
        // configuration that sets it was refused.
        if (is_refused)
            std::erase_if(job.problems, [](const spec::Problem& problem) {
                return problem.message.starts_with("is missing");
            });
        if (is_refused)
            job.problems.insert(job.problems.begin(), source.foreign->problems.begin(),
                                source.foreign->problems.end());
        for (spec::Problem& problem : models.problems(source.document, source.base, job.ok())) {
            // Skip a problem of LoRA's targets that check_job() has already reported.
            const bool repeats = problem.path.starts_with("train.lora.") &&
                                 std::ranges::find(job.problems, problem.path,
                                                   &spec::Problem::path) != job.problems.end();
            if (!repeats) job.problems.push_back(std::move(problem));
        }
        if (job.ok())
            for (spec::Problem& problem : schedule_problems(job.spec.document.text()))
                job.problems.push_back(std::move(problem));
        if (job.ok())
            for (spec::Problem& problem : record_problems(job.spec))
                job.problems.push_back(std::move(problem));
        for (spec::Problem& problem : job.problems)
            add_download(problem, source.document, source.base, source.yaml ? *source.yaml : "");
        if (!job.ok()) {
            problems += fmt::format("{}{} {}:", problems.empty() ? "" : "\n", source.label,
                                    queues ? "cannot be queued" : "is not a valid job");
            if (const auto format = foreign_format(source.document))
                problems += fmt::format(
                    "\n  this is a configuration of {}; write a Roll job file (docs/job-file.md)",
                    *format);
        }
        const Lines lines = job.ok() ? Lines() : key_lines_of(source);
        for (const spec::Problem& problem : job.problems)
            problems += "\n  " + line_of(lines, problem.path) +
                        replaced(spec::sentence(problem), "\n", "\\n");
        specs.push_back(std::move(job.spec));
    }
    if (!problems.empty()) return fail(ErrorCode::InvalidArgument, problems);
    return specs;
}

}  // namespace roll::cli
