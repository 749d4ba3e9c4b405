// `rollctl data preview`: shows the text that a training job reads, and the tokens that it learns.
#include "cli/commands/data.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/foreign/hub.hpp"
#include "common/files.hpp"
#include "common/json_records.hpp"
#include "common/spec/schema/instead.hpp"
#include "common/spec/schema/schema.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Returns the objective that fits a file. The keys of the file's first record determine the
// objective: "chosen" and "rejected" mean `dpo`, a "label" that is true or false means `kto`, and
// "text" means `pretrain`. Otherwise, the objective is `sft`.
const char* objective_of(std::string_view text, bool list) {
    const std::string_view first = first_record(text, list);
    if (first.empty()) return "pretrain";
    const auto record = parse_json(first);
    if (!record || !record->is_object()) return "sft";
    if (record->contains("chosen") && record->contains("rejected")) return "dpo";
    if (record->value("label", Json()).is_boolean()) return "kto";
    return record->contains("text") ? "pretrain" : "sft";
}

// Returns the cached files of a data set of the HuggingFace Hub; an empty list if `name` is a path.
// Fails if `name` is a name of the Hub, but the cache lacks the data set.
Result<std::vector<std::string>> files_of_hub(const std::string& name) {
    if (path_exists(name)) return std::vector<std::string>();
    ROLL_TRY(std::vector<std::string> files, hub_files(name));
    const std::string fetch = download_of(without_configuration(name), ".", HubKind::Dataset);
    if (files.empty() && !fetch.empty())
        return fail(ErrorCode::NotFound,
                    fmt::format("{} is neither a file nor in HuggingFace's cache {}", name,
                                hub_cache().string()),
                    fetch);
    return files;
}

// Returns the absolute path of a model's directory. `name` is a path, or the model's name on the
// HuggingFace Hub.
std::string model_directory(const std::string& name) {
    const auto cached = path_exists(name) ? std::nullopt : cached_snapshot(name, HubKind::Model);
    return cached ? *cached : fs::absolute(name).string();
}

// Returns true for a data file, and false for a job file. A .json file is a job file if it contains
// an object with the key `kind`.
Result<bool> is_data(const fs::path& file) {
    const std::string extension = file.extension();
    if (extension != ".json")
        return extension == ".jsonl" || extension == ".txt" || extension == ".parquet";
    ROLL_TRY(const std::string text, read_file(file));
    if (is_json_list(text)) return true;
    const auto record = parse_json(first_record(text, false));
    return record && record->is_object() && !record->contains("kind");
}

// Fails if the job's schema has advice for files of this type, which data.train does not accept.
Result<void> check_kind(const std::string& file) {
    const OrderedJson& rule =
        spec::job_schema().at(OrderedJson::json_pointer("/properties/data/properties/train/items"));
    const auto instead = spec::instead_of(rule, file);
    if (!instead) return {};
    return fail(ErrorCode::InvalidArgument, fmt::format("the file is {}, {}", file, *instead));
}

// Returns the document of a job that tokenizes the files. The first file determines the objective.
Result<Json> document_of(const std::vector<std::string>& files, const PreviewOptions& options) {
    const fs::path file = files.front();
    Json document{{"kind", "tokenize"}, {"name", "preview"}};
    document["data"]["train"] = files;
    const bool may_be_list = file.extension() == ".json";
    if (file.extension() == ".jsonl" || may_be_list) {
        ROLL_TRY(const std::string text, read_file(file));
        document["objective"] = objective_of(text, may_be_list && is_json_list(text));
    }
    if (file.extension() == ".parquet") document["objective"] = "sft";
    if (!options.model.empty()) document["tokenizer"] = model_directory(options.model);
    for (const std::string& assignment : options.job.sets)
        ROLL_TRY_VOID(set_key(document, assignment));
    return document;
}

}  // namespace

void add_preview_options(CLI::App& command, PreviewOptions& options) {
    command
        .add_option("FILE", options.file,
                    "A data file (.jsonl, .json, .parquet or .txt), a data set in HuggingFace's "
                    "cache (OWNER/NAME), or the file of a train job")
        ->required();
    command.add_option(
        "--model", options.model,
        "Directory of a tokenizer with its chat template [the job's tokenizer, or bytes]");
    command
        .add_option("-n,--documents", options.documents,
                    "Number of documents to show from each file [3]")
        ->check(CLI::NonNegativeNumber);
    command.add_option("--set", options.job.sets,
                       "Override a key of the job file, e.g. data.train_on=last; repeatable");
}

Result<int> run_preview(const Context& context, const PreviewOptions& options) {
    ROLL_TRY(std::vector<std::string> files, files_of_hub(options.file));
    if (files.empty()) {
        ROLL_TRY_VOID(check_kind(options.file));
        ROLL_TRY(const bool data, is_data(options.file));
        if (data) files = {fs::absolute(options.file).string()};
    }
    std::string document;
    if (!files.empty()) {
        ROLL_TRY(const Json made, document_of(files, options));
        document = made.dump();
    } else {
        JobOptions job = options.job;
        if (!options.model.empty())
            job.sets.push_back("tokenizer=" + model_directory(options.model));
        const std::vector kinds{spec::JobKind::Train, spec::JobKind::Resume,
                                spec::JobKind::Tokenize};
        ROLL_TRY(document, one_document(options.file, "rollctl data preview", kinds, job));
    }
    ROLL_TRY(const std::string spec, in_memory(document));
    std::vector<std::string> arguments = {"preview",
                                          "--spec",
                                          spec,
                                          "--documents",
                                          std::to_string(options.documents),
                                          "--columns",
                                          std::to_string(terminal_size().columns)};
    if (context.json) arguments.emplace_back("--json");
    if (context.color) arguments.emplace_back("--color");
    return tl::unexpected(become("roll-rank", arguments));
}

}  // namespace roll::cli
