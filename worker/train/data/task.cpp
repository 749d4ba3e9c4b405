#include "worker/train/data/task.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "common/counted.hpp"
#include "common/files.hpp"
#include "common/json.hpp"
#include "common/yaml/yaml.hpp"
#include "worker/chat/json_value.hpp"
#include "worker/chat/template.hpp"
#include "worker/train/data/examples.hpp"
#include "worker/train/data/task_records.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Keys of a task file that do not change the results.
constexpr std::array kNoEffect{"tag",
                               "metadata",
                               "task_alias",
                               "group",
                               "should_decontaminate",
                               "doc_to_decontamination_query"};
constexpr std::array kRead{
    "dataset_name",     "task",           "dataset_path",     "dataset_kwargs",   "test_split",
    "validation_split", "doc_to_choice",  "doc_to_text",      "doc_to_target",    "training_split",
    "output_type",      "description",    "metric_list",      "target_delimiter", "fewshot_split",
    "num_fewshot",      "fewshot_config", "fewshot_delimiter"};
constexpr std::array kTexts{"dataset_name",     "test_split",    "validation_split",
                            "training_split",   "fewshot_split", "fewshot_delimiter",
                            "target_delimiter", "description"};
constexpr std::array kOfExamples{"sampler", "split", "fewshot_delimiter", "target_delimiter"};
constexpr std::int64_t kExamplesMost = 1000;
// maximum memory for rendering one record, in bytes
constexpr std::size_t kMemory = std::size_t{64} << 20U;
// Separates the choices that a template writes. No text contains this character.
constexpr char kBetween = '\x1e';

bool is_in(const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// A record of the dataset, from which a template makes a question.
struct Record {
    explicit Record(std::size_t memory) : arena(memory) {}
    const chat::Value* find(const std::string& key) const {
        for (const chat::Entry& entry : entries)
            if (entry.key == key) return &entry.value;
        return nullptr;
    }
    chat::Arena arena;
    std::vector<chat::Entry> entries;
};

// A template that inserts fields of a record into a text.
struct Writing {
    static Result<Writing> make(const std::string& source) {
        ROLL_TRY(chat::Template parsed, chat::Template::parse(source));
        return Writing{std::move(parsed), source.ends_with('\n')};
    }
    Result<std::string> write(Record& record) const {
        ROLL_TRY(chat::Rendered rendered, what.render(record.entries, record.arena, 0));
        // jinja2's option keep_trailing_newline keeps the newline at the end of a template. The
        // renderer of chat templates removes this newline, so add it here.
        if (ends_line) rendered.text += '\n';
        return std::move(rendered.text);
    }
    chat::Template what;
    bool ends_line = false;
};

// A key such as doc_to_text: the name of a field, a template, or a fixed value.
struct Source {
    std::string field;
    std::optional<Writing> writing;
    std::vector<std::string> texts;  // the fixed choices
    std::optional<std::int64_t> number;
};

// Returns the expression of a template that consists of `{{ expression }}` alone.
std::optional<std::string> expression_of(const std::string& source) {
    const std::size_t begin = source.find_first_not_of(" \n"), end = source.find_last_not_of(" \n");
    if (begin == std::string::npos || end - begin < 4) return std::nullopt;
    const std::string text = source.substr(begin, end - begin + 1);
    const bool whole =
        text.starts_with("{{") && text.ends_with("}}") && text.find("{{", 2) == std::string::npos;
    return whole ? std::optional(text.substr(2, text.size() - 4)) : std::nullopt;
}

Result<Source> choice_source(const Json& given, const Record& first, const fs::path& file) {
    Source source;
    if (holds<std::vector<std::string>>(given)) {
        source.texts = given.get<std::vector<std::string>>();
        return source;
    }
    if (!given.is_string())
        return refused_task(file,
                            "doc_to_choice is missing; allowed: a list of texts, a field, or a "
                            "template");
    const auto text = given.get<std::string>();
    if (first.find(text) != nullptr) {
        source.field = text;
        return source;
    }
    const auto expression = expression_of(text);
    if (!expression)
        return refused_task(file, "doc_to_choice is " + Json(text).dump() +
                                      "; allowed: a list of texts, a field, or a template "
                                      "{{ expression }} that gives a list");
    ROLL_TRY(source.writing, Writing::make("{% for choice in (" + *expression + ") %}{{ choice }}" +
                                           kBetween + "{% endfor %}"));
    return source;
}

Result<Source> text_source(const char* key, const Json& given, const Record& first,
                           const fs::path& file) {
    Source source;
    if (given.is_number_integer()) {
        source.number = given.get<std::int64_t>();
        return source;
    }
    if (!given.is_string())
        return refused_task(file, std::string(key) + " is missing; allowed: a field or a template");
    source.field = given.get<std::string>();
    if (first.find(source.field) != nullptr) return source;
    auto writing = Writing::make(std::exchange(source.field, ""));
    if (!writing) return refused_task(file, std::string(key) + ": " + writing.error().message);
    source.writing = *std::move(writing);
    return source;
}

Result<std::vector<std::string>> choices_of(const Source& source, Record& record) {
    if (!source.texts.empty()) return source.texts;
    std::vector<std::string> choices;
    if (source.writing) {
        ROLL_TRY(const std::string text, source.writing->write(record));
        for (std::size_t begin = 0, end; (end = text.find(kBetween, begin)) != std::string::npos;
             begin = end + 1)
            choices.push_back(text.substr(begin, end - begin));
        return choices;
    }
    const chat::Value* value = record.find(source.field);
    if (value == nullptr || !value->is(chat::Kind::List))
        return fail(ErrorCode::InvalidArgument, "its field \"" + source.field + "\" is not a list");
    for (const chat::Value& one : value->list()) choices.emplace_back(chat::str(one, record.arena));
    return choices;
}

// Returns the index of a choice; -1 if there is none.
std::int64_t index_of(const std::vector<std::string>& choices, std::string_view text) {
    const auto found = std::find(choices.begin(), choices.end(), text);
    return found == choices.end() ? -1 : found - choices.begin();
}

// Returns the right choice. A number is an index, and a text is the choice itself. Digits that a
// template writes count as a number.
Result<std::int64_t> answer_of(const Source& source, Record& record,
                               const std::vector<std::string>& choices) {
    std::int64_t number = -1;
    if (source.number) {
        number = *source.number;
    } else if (source.writing) {
        ROLL_TRY(const std::string text, source.writing->write(record));
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size() || text.front() == '-')
            number = index_of(choices, text);
    } else {
        const chat::Value* value = record.find(source.field);
        if (value == nullptr || value->is(chat::Kind::List) || value->is(chat::Kind::Dict))
            return fail(ErrorCode::InvalidArgument,
                        "its field \"" + source.field + "\" is neither a number nor a text");
        number = value->is(chat::Kind::Int) || value->is(chat::Kind::Bool)
                     ? value->integer
                     : index_of(choices, chat::str(*value, record.arena));
    }
    return number < std::ssize(choices) ? std::max<std::int64_t>(number, -1) : -1;
}

Result<std::string> text_of(const Source& source, Record& record) {
    if (source.writing) return source.writing->write(record);
    const chat::Value* value = record.find(source.field);
    if (value == nullptr)
        return fail(ErrorCode::InvalidArgument, "has no field \"" + source.field + "\"");
    return std::string(chat::str(*value, record.arena));
}

Result<void> check_examples(const Json& task, const fs::path& file) {
    const Json count = task.value("num_fewshot", Json(0));
    if (!count.is_number_integer() || count < 0 || count > kExamplesMost)
        return refused_task(file, "num_fewshot is " + count.dump() +
                                      "; allowed: an integer from 0 to " +
                                      std::to_string(kExamplesMost));
    const Json config = task.value("fewshot_config", Json::object());
    if (!config.is_object())
        return refused_task(file, "fewshot_config is " + config.dump() + "; allowed: a mapping");
    for (const auto& [key, value] : config.items()) {
        if (value.is_null()) continue;
        if (!is_in(kOfExamples, key))
            return refused_task(file, "fewshot_config." + key + " is not supported");
        if (!value.is_string())
            return refused_task(
                file, "fewshot_config." + key + " is " + value.dump() + "; allowed: a text");
    }
    const Json sampler = config.value("sampler", Json("default"));
    if (sampler != "default" && sampler != "first_n" && !sampler.is_null())
        return refused_task(
            file, "fewshot_config.sampler is " + sampler.dump() + "; allowed: default, first_n");
    return {};
}

Result<void> check_keys(const Json& task, const std::string& text, const fs::path& file) {
    if (!task.is_object() || !holds<std::string>(task.value("task", Json())))
        return refused_task(file, "lacks the key `task`, which gives the name of the task");
    if (task.contains("process_docs"))
        return refused_task(
            file,
            "process_docs needs Python and is not supported; write the records that "
            "this function returns to a .jsonl, name the file in "
            "dataset_kwargs.data_files, and remove process_docs");
    for (const auto& [key, value] : task.items())
        if (!is_in(kRead, key) && !is_in(kNoEffect, key))
            return refused_task(file, key + " is not supported");
    for (const char* key : kTexts)
        if (task.contains(key) && !task[key].is_string())
            return refused_task(file,
                                std::string(key) + " is " + task[key].dump() + "; allowed: a text");
    if (text.find("!function") != std::string::npos)
        return refused_task(
            file, "!function needs Python and is not supported; replace it by a template");
    if (task.value("output_type", Json("generate_until")) != "multiple_choice")
        return refused_task(file, "output_type is " + task.value("output_type", Json()).dump() +
                                      "; allowed: multiple_choice");
    ROLL_TRY_VOID(check_examples(task, file));
    for (const Json& one : task.value("metric_list", Json::array())) {
        const Json metric = one.is_object() ? one.value("metric", Json()) : Json();
        if (metric != "acc" && metric != "acc_norm")
            return refused_task(file,
                                "metric_list has " + metric.dump() + "; allowed: acc, acc_norm");
    }
    return {};
}

Result<void> read_record(std::string_view line, Record& record) {
    ROLL_TRY(const chat::Value value, chat::read_json(line, record.arena));
    if (!value.is(chat::Kind::Dict)) return fail(ErrorCode::Corrupt, "is not a JSON object");
    record.entries.assign(value.dict->entries.begin(), value.dict->entries.end());
    return {};
}

// The sources of a question's parts.
struct Sources {
    std::optional<Writing> description;
    Source text, choices, target;
};

Result<Sources> sources_of(const Json& task, const Record& first, const fs::path& file) {
    Sources sources;
    const auto description = task.value("description", std::string());
    if (!description.empty()) {
        ROLL_TRY(sources.description, Writing::make(description));
    }
    ROLL_TRY(sources.text,
             text_source("doc_to_text", task.value("doc_to_text", Json()), first, file));
    ROLL_TRY(sources.choices, choice_source(task.value("doc_to_choice", Json()), first, file));
    ROLL_TRY(sources.target,
             text_source("doc_to_target", task.value("doc_to_target", Json()), first, file));
    if (sources.text.number)
        return refused_task(file, "doc_to_text is a number; allowed: a field or a template");
    return sources;
}

// Makes a question from a record. `examples` is the text between the task's description and the
// question.
Result<Question> question_of(const Sources& sources, Record& record, const std::string& examples) {
    Question question;
    if (sources.description) {
        ROLL_TRY(question.context, sources.description->write(record));
    }
    question.context += examples;
    ROLL_TRY(const std::string text, text_of(sources.text, record));
    question.context += text;
    ROLL_TRY(question.choices, choices_of(sources.choices, record));
    if (question.choices.size() < 2)
        return fail(ErrorCode::InvalidArgument,
                    "has " + counted(question.choices.size(), "choice") + "; allowed: 2 or more");
    ROLL_TRY(question.answer, answer_of(sources.target, record, question.choices));
    return question;
}

// The data set of the examples, and the examples themselves; empty in a task without examples.
struct Shots {
    std::unique_ptr<TaskRecords> dataset;
    std::optional<Examples> examples;
};

// Returns the text of an example: the question with its answer.
Result<std::string> example_of(const Sources& sources, const TaskRecords& dataset, std::size_t line,
                               const std::string& between, const std::string& after) {
    Record record(kMemory);
    if (auto read = read_record(dataset.lines[line], record); !read)
        return dataset.wrong(line, read.error());
    auto question = question_of(sources, record, "");
    if (!question) return dataset.wrong(line, question.error());
    if (question->answer < 0)
        return dataset.wrong(
            line, {ErrorCode::InvalidArgument, "its answer is not one of its choices", ""});
    return question->context + between +
           question->choices[static_cast<std::size_t>(question->answer)] + after;
}

// Prepares the examples. As in lm-evaluation-harness, the examples come from fewshot_split. If
// there is none, they come from the training split or, if there is none either, from the split of
// the questions.
Result<Shots> shots_of(const Json& task, std::size_t count, const Sources& sources,
                       const fs::path& file) {
    Shots shots;
    if (count == 0) return shots;
    Json config = task.value("fewshot_config", Json::object());
    std::erase_if(config.get_ref<Json::object_t&>(),
                  [](const auto& entry) { return entry.second.is_null(); });
    const Json given = config.value("split", task.value("fewshot_split", Json()));
    Json split = given;
    for (const char* key : {"training_split", "validation_split", "test_split"})
        if (split.is_null()) split = task.value(key, Json());
    ROLL_TRY(shots.dataset,
             read_task_records(
                 task, split.is_null() ? std::string("train") : split.get<std::string>(), file));
    const std::string between =
        config.value("target_delimiter", task.value("target_delimiter", std::string(" ")));
    const std::string after =
        config.value("fewshot_delimiter", task.value("fewshot_delimiter", std::string("\n\n")));
    Sources alone{std::nullopt, sources.text, sources.choices, sources.target};
    shots.examples.emplace(
        shots.dataset->lines,
        Examples::Options{.count = count,
                          .in_order = config.value("sampler", "default") == std::string("first_n"),
                          .has_question = given == task.value("test_split", Json())},
        [alone = std::move(alone), dataset = shots.dataset.get(), between, after](std::size_t i) {
            return example_of(alone, *dataset, i, between, after);
        });
    return shots;
}

// Returns the keys of a task file. A key without a value counts as left out.
Result<Json> read_keys(const fs::path& file) {
    ROLL_TRY(const std::string text, read_file(file));
    ROLL_TRY(const std::vector<Json> documents, yaml::read(text, file.string()));
    Json given = documents.empty() ? Json() : documents.front();
    if (given.is_object())
        std::erase_if(given.get_ref<Json::object_t&>(),
                      [](const auto& entry) { return entry.second.is_null(); });
    ROLL_TRY_VOID(check_keys(given, text, file));
    return given;
}

}  // namespace

Result<Task> read_task(const fs::path& file, std::optional<std::int64_t> fewshot) {
    ROLL_TRY(const Json given, read_keys(file));
    Task task{.name = given["task"].get<std::string>(),
              .delimiter = given.value("target_delimiter", std::string(" ")),
              .fewshot = fewshot.value_or(given.value("num_fewshot", std::int64_t{0})),
              .questions = {}};
    const std::string split = given.value("test_split", given.value("validation_split", "train"));
    ROLL_TRY(const std::unique_ptr<TaskRecords> dataset, read_task_records(given, split, file));
    std::optional<Sources> sources;
    Shots shots;
    for (std::size_t i = 0; i < dataset->lines.size(); ++i) {
        Record record(kMemory);
        if (auto read = read_record(dataset->lines[i], record); !read)
            return dataset->wrong(i, read.error());
        if (!sources) {
            ROLL_TRY(sources, sources_of(given, record, file));
            ROLL_TRY(shots,
                     shots_of(given, static_cast<std::size_t>(task.fewshot), *sources, file));
        }
        Result<std::string> examples = std::string();
        if (shots.examples) examples = shots.examples->next(dataset->lines[i]);
        if (!examples) return refused_task(file, examples.error().message);
        auto question = question_of(*sources, record, *examples);
        if (!question) return dataset->wrong(i, question.error());
        task.questions.push_back(*std::move(question));
    }
    return task;
}

}  // namespace roll::train
