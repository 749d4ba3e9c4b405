#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "cli/submit/checks.hpp"
#include "common/files.hpp"
#include "common/io/run.hpp"
#include "common/json_file.hpp"
#include "common/json_records.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/train/preference.hpp"
#include "common/spec/train/train.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/corpus/parquet.hpp"
#include "worker/train/data/corpus/text_source.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRecordMax = 16 << 20;  // bytes; larger first records are not checked

// Returns the first row of a .parquet as JSON; an empty text if roll-parquet is not installed or
// cannot read the file.
std::string first_row(const std::string& file) {
    const auto done =
        io::run({.arguments = {fs::path(io::own_program()).parent_path() / "roll-parquet", file},
                 .environment = io::current_environment()},
                {.output_max = kRecordMax});
    return done ? done->output.substr(0, done->output.find('\n')) : "";
}

// Returns the first record of a file; an empty text if this machine cannot read the file, or if the
// file has no record that ends within its first kRecordMax bytes. A larger part of a file is not
// read, because a file on a remote volume may have many GiB without a line break.
std::string first_record_of(const std::string& file) {
    if (!is_file(file)) return "";
    if (data::is_parquet(file)) return first_row(file);
    if (!data::has_records(file)) return "";
    const auto mapped = MappedFile::open(file);
    if (!mapped) return "";
    const auto bytes = mapped->bytes();
    const std::size_t size = std::min(bytes.size(), kRecordMax + 2);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
    const bool list = fs::path(file).extension() == ".json" && is_json_list(text);
    for (std::size_t at = 0; at < size;) {
        const JsonRecord record = record_at(text, list, at);
        // The record may go on after the first kRecordMax bytes
        if (record.end == size && size < bytes.size()) return "";
        if (!record.text.empty()) return std::string(record.text);
        at = record.end;
    }
    return "";
}

// A job of a chain
struct Link {
    std::string name;
    std::vector<std::string> tokenizers;  // places from which the job may take its tokenizer
};
using Links = std::span<const Link>;

// Returns the places from which a job takes the tokenizer at `place`. If `place` is the result of
// an earlier job of the chain, such as "{sft.result}", these are the places of the earlier job.
std::vector<std::string> resolved(const std::string& place, Links earlier) {
    for (std::size_t i = earlier.size(); i-- > 0;)
        if (place == "{" + earlier[i].name + ".result}" ||
            (place == "{previous.result}" && i + 1 == earlier.size()))
            return earlier[i].tokenizers;
    return {place};
}

// Returns the different places from which a job may take its tokenizer.
std::vector<std::string> tokenizers_of(const Json& document, Links earlier) {
    std::vector<std::string> places;
    for (const char* const key : {"/tokenizer", "/model/from", "/merge/base", "/convert/source"}) {
        const Json::json_pointer at(key);
        if (!document.contains(at) || !document[at].is_string()) continue;
        for (std::string& place : resolved(document[at], earlier))
            if (std::ranges::find(places, place) == places.end())
                places.push_back(std::move(place));
    }
    return places;
}

// Returns whether the model in a directory was trained with the tokenizer `bytes`.
bool reads_bytes(const std::string& directory) {
    const auto config = read_optional_json_object(fs::path(directory) / "config.json");
    return config && formats::has_bytes_tokenizer(*config);
}

// Returns why a job has no chat template; nullopt if it has one, or if this machine cannot tell.
// `places` are the possible places of its tokenizer, the first before the others. `models_own`: the
// job uses the tokenizer of its model.
std::optional<std::string> missing_template(const std::vector<std::string>& places,
                                            bool models_own) {
    std::optional<std::string> why;
    if (!places.empty() && places.front() == "bytes")
        return "the tokenizer `bytes` has no chat template";
    if (!places.empty() && models_own && reads_bytes(places.front()))
        return places.front() +
               " is a model of the tokenizer `bytes`, which has no chat template; a copy of the "
               "tokenizer's files and of the template in another directory is a tokenizer with a "
               "chat template";
    for (const std::string& place : places) {
        if (place == "bytes") {
            if (!why) why = "the tokenizer `bytes` has no chat template";
            continue;
        }
        if (::access(place.c_str(), R_OK | X_OK) != 0) return std::nullopt;
        if (!tokenizer::has_tokenizer(place)) continue;
        const auto found = chat::load_template(place);
        if (found && *found) return std::nullopt;
        why = found ? place + " has no chat template"
                    : "the chat template cannot be read: " + found.error().message;
    }
    return why;
}

data::EncodeRules rules_of(const spec::DataSpec& data) {
    data::EncodeRules rules;
    rules.field = data.field;
    rules.completions = data.completions;
    rules.texts = data.texts;
    rules.pairs = data.pairs;
    rules.labels = data.labels;
    rules.prompt_field = data.prompt_field;
    rules.completion_field = data.completion_field;
    rules.label_field = data.label_field;
    rules.margin_field = data.margin_field;
    rules.names = {data.columns, data.tags, data.prompt_field, data.completion_field};
    return rules;
}

// Checks the files of one job. `missing` says why the job has no chat template.
class FileCheck {
  public:
    FileCheck(const spec::DataSpec& data, std::string objective, std::string prefix,
              std::optional<std::string> missing)
        : rules_(rules_of(data)),
          skips_(data.skip_bad_lines),
          objective_(std::move(objective)),
          prefix_(std::move(prefix)),
          missing_(std::move(missing)) {}

    void check(const std::string& path, const std::string& file) {
        std::error_code ignored;
        if (data::has_records(file) && is_file(file) && fs::file_size(file, ignored) == 0)
            return note(path,
                        fmt::format("is {}, which is empty; write records to it, or remove it "
                                    "from the list",
                                    file));
        const std::string record = first_record_of(file);
        if (record.empty() || record.size() > kRecordMax) return;
        const auto chat = data::needs_template(record, rules_);
        if (!chat && !skips_)
            note(path, fmt::format(
                           "is {}, whose first record is refused: {}; correct the record, or set "
                           "`objective` (it is {}) or the names of the fields so that they fit the "
                           "file (docs/data.md)",
                           file, chat.error().message, objective_));
        if (chat && *chat && missing_)
            note(path, fmt::format("is {}, which has conversations, and {}; set `tokenizer` to a "
                                   "directory whose tokenizer_config.json has a chat_template, or "
                                   "that has a chat_template.jinja",
                                   file, *missing_));
    }

    std::vector<spec::Problem> take() { return std::move(problems_); }

  private:
    void note(const std::string& path, std::string message) {
        problems_.push_back({prefix_ + path, std::move(message)});
    }

    data::EncodeRules rules_;
    bool skips_;
    std::string objective_, prefix_;
    std::optional<std::string> missing_;
    std::vector<spec::Problem> problems_ = {};
};

bool models_own(const Json& document) {
    const Json own = spec::key_at(document, "/tokenizer");
    return own.is_string() && own == spec::key_at(document, "/model/from");
}

// Returns the problems of one job. `tokenizers` are the possible places of its tokenizer.
std::vector<spec::Problem> problems_of(const Json& document, const std::string& prefix,
                                       const std::vector<std::string>& tokenizers) {
    const auto spec = spec::tokenize_spec(document.dump());
    if (!spec) return {};
    FileCheck files(spec->data, spec::objective_name(document.value("objective", Json())), prefix,
                    missing_template(tokenizers, models_own(document)));
    for (std::size_t i = 0; i < spec->data.train.size(); ++i)
        files.check(fmt::format("data.train[{}]", i), spec->data.train[i]);
    for (const spec::ValidFiles& set : spec->data.valid_files)
        for (const std::string& file : set.paths) files.check("data.valid." + set.name, file);
    return files.take();
}

}  // namespace

std::vector<spec::Problem> record_problems(const spec::JobSpec& job) {
    std::vector<spec::Problem> problems;
    std::vector<Link> chain;
    const auto look = [&](const spec::JobSpec& one, const std::string& prefix) {
        const Json document = Json::parse(one.document.text());
        chain.push_back({document.value("name", std::string()), tokenizers_of(document, chain)});
        if (one.kind == spec::JobKind::Train || one.kind == spec::JobKind::Tokenize)
            for (spec::Problem& problem : problems_of(document, prefix, chain.back().tokenizers))
                problems.push_back(std::move(problem));
    };
    look(job, "");
    for (std::size_t i = 0; i < job.then.size(); ++i)
        look(job.then[i], fmt::format("then[{}].", i));
    return problems;
}

}  // namespace roll::cli
