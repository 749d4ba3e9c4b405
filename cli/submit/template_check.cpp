#include "cli/submit/template_check.hpp"

#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/json_records.hpp"
#include "common/spec/train/train.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/corpus/chat_source.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Returns whether a record has a conversation that only a chat template can render.
bool is_conversation(std::string_view record, const spec::DataSpec& data) {
    if (!data.has_answers())
        return data::conversation_form(record, data.prompt_field, data.completion_field,
                                       {data.columns, data.tags})
            .has_value();
    const auto json = parse_json(record);
    if (!json || !json->is_object()) return false;
    for (const std::string& answer : {std::string("chosen"), data.completion_field})
        if (const Json value = json->value(answer, Json()); value.is_structured()) return true;
    return false;
}

// Returns whether the first record of a file is a conversation. False if the file cannot be read.
bool has_conversations(const std::string& file, const spec::DataSpec& data) {
    const fs::path kind = fs::path(file).extension();
    if (kind != ".jsonl" && kind != ".json") return false;
    const auto mapped = MappedFile::open(file);
    if (!mapped) return false;
    const auto bytes = mapped->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return is_conversation(first_record(text, kind == ".json" && is_json_list(text)), data);
}

// Returns why the job has no chat template; nullopt if it has one, or if this machine cannot tell.
std::optional<std::string> missing_template(const spec::TrainSpec& spec) {
    if (spec.tokenizer == "bytes" && spec.model.from.empty())
        return "the tokenizer `bytes` has no chat template";
    std::optional<std::string> why;
    for (const std::string& place : {spec.tokenizer, spec.model.from}) {
        if (place.empty() || place == "bytes") continue;
        if (::access(place.c_str(), R_OK | X_OK) != 0) return std::nullopt;
        if (!tokenizer::has_tokenizer(place)) continue;
        const auto found = chat::load_template(place);
        if (found && *found) return std::nullopt;
        if (!why)
            why = found ? place + " has no chat template"
                        : "the chat template cannot be read: " + found.error().message;
    }
    return why;
}

}  // namespace

std::vector<spec::Problem> template_problems(std::string_view document) {
    const auto spec = spec::tokenize_spec(document);
    if (!spec || !spec->data.completions) return {};
    const auto why = missing_template(*spec);
    std::vector<spec::Problem> problems;
    for (std::size_t i = 0; why && i < spec->data.train.size(); ++i) {
        const std::string& file = spec->data.train[i];
        if (has_conversations(file, spec->data))
            problems.push_back(
                {fmt::format("data.train[{}]", i),
                 fmt::format("is {}, which has conversations, and {}; set `tokenizer` to a "
                             "directory whose tokenizer_config.json has a chat_template, or that "
                             "has a chat_template.jinja",
                             file, *why)});
    }
    return problems;
}

}  // namespace roll::cli
