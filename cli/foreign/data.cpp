#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "cli/foreign/hub.hpp"
#include "cli/foreign/parts.hpp"
#include "cli/foreign/table.hpp"
#include "common/files.hpp"
#include "common/hub/dataset.hpp"
#include "common/hub_cache.hpp"
#include "common/json_records.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Returns the problem of a data file that Roll cannot read; empty if there is none.
std::string unreadable(const std::string& path) {
    const std::string kind = fs::path(path).extension();
    if (kind == ".jsonl" || kind == ".json" || kind == ".parquet" || kind == ".txt") return "";
    return fmt::format(
        "Roll does not read the file {}; supported: .jsonl, .json, .parquet and .txt", path);
}

// A data set of the HuggingFace Hub, as a configuration names it.
struct HubSet {
    std::string name, config, split;
};

// Returns the cached files of a data set of the Hub, and adds a remark for each. Refuses `key` if
// the cache does not have the data set, or if the data set does not have the split.
std::vector<std::string> read_hub_set(const Config& config, const std::string& key,
                                      const HubSet& set, const hub::Keys& keys) {
    const bool plain = set.config.empty() && set.split == "train";
    std::vector<std::string> files;
    const auto found = hub::split_files(set.name, set.config, set.split, keys);
    if (found)
        files.assign(found->begin(), found->end());
    else if (plain && found.error().code == ErrorCode::NotFound)
        // one file, or files without the name of a split
        files = hub_files(set.name).value_or(std::vector<std::string>());
    // A data set may have its rows both as .parquet and as text. In this case, read only the text
    // files.
    const auto is_table = [](const std::string& file) { return file.ends_with(".parquet"); };
    if (!std::ranges::all_of(files, is_table)) std::erase_if(files, is_table);
    for (const std::string& file : files)
        config.foreign.remarks.push_back(
            fmt::format("{}: Roll reads the file {} of the data set {}", key, file, set.name));
    if (!files.empty()) return files;
    const std::string& message = found.error().message;  // the message begins with the wrong key
    const std::size_t end = message.find(' ');
    config.refuse(message.substr(0, end), message.substr(end + 1));
    return files;
}

// Adds the files of TRL's `dataset_name` to `train`: a local file, or the files that the cache of
// the HuggingFace Hub has.
void read_named(const Config& config, std::vector<std::string>& train) {
    const auto named = config.text("dataset_name");
    if (!named) return;
    const HubSet set{*named, config.text("dataset_config").value_or(""),
                     config.text("dataset_train_split").value_or("train")};
    const bool is_local = path_exists(config.absolute(*named));
    const std::string problem = unreadable(*named);
    const bool may_be_name = !download_of(*named, config.directory, HubKind::Dataset).empty();
    const bool is_cached = !hub_files(*named).value_or(std::vector<std::string>()).empty();
    if (!is_local && may_be_name && (!problem.empty() || is_cached)) {
        for (std::string& file :
             read_hub_set(config, "dataset_name", set,
                          {"dataset_name", "dataset_config", "name it as dataset_name"}))
            train.push_back(std::move(file));
        return;
    }
    train.push_back(*named);
    if (!problem.empty())
        config.refuse("dataset_name",
                      problem + "; name a local file, or set `dataset` and `dataset_dir`");
    for (const char* const key : {"dataset_config", "dataset_train_split"})
        if (const auto value = config.text(key); value && *value != "train")
            config.refuse(key, fmt::format("is {}, but {} is a file, and a file has neither "
                                           "configurations nor splits; set dataset_name to the "
                                           "file with these data",
                                           *value, *named));
}

// Returns the content of LLaMA-Factory's dataset_info.json, which describes the data sets.
std::optional<Json> dataset_info(const Config& config) {
    const std::string folder = config.text("dataset_dir").value_or("data");
    return config.object_in(config.absolute(folder + "/dataset_info.json"), "dataset_dir");
}

// Returns true if the model's chat template renders prompts and answers. The template `empty` of
// LLaMA-Factory joins prompt and answer unchanged.
bool uses_template(const Config& config) {
    const bool pretrains = config.objective() == "pretrain";
    return !pretrains && config.has("template") && config.keys["template"] != "empty";
}

// Copies the entries of `given` whose value is a text and whose key ends with `suffix`. Removes the
// suffix from their keys.
Json given_names(const Json& given, const std::string& suffix) {
    Json names = Json::object();
    for (const auto& [key, name] : given.items())
        if (name.is_string() && key.ends_with(suffix))
            names[key.substr(0, key.size() - suffix.size())] = name;
    return names;
}

std::string keys_of(const OrderedJson& object) {
    std::string all;
    for (const auto& [key, value] : object.items()) all += (all.empty() ? "" : ", ") + key;
    return all;
}

// Sets data.columns and data.tags of the job file from the keys `columns` and `tags` of a data set.
void read_conversations(const Config& config, const std::string& key, const std::string& name,
                        const Json& set) {
    const std::string formatting = set.value("formatting", std::string("alpaca"));
    // Maps each `formatting` of a data set to its default columns.
    const OrderedJson& known = foreign_table()["formatting"];
    if (!known.contains(formatting))
        return config.refuse(
            key, fmt::format("names the data set {}, whose formatting is {}; supported: {}", name,
                             formatting, keys_of(known)));
    Json columns = given_names(set.value("columns", Json::object()), "");
    for (const auto& [column, usual] : known[formatting].items())
        if (!columns.contains(column)) columns[column] = Json(usual);
    for (const char* const other : {"images", "videos", "audios"}) {
        if (!columns.contains(other)) continue;
        config.refuse(
            key, fmt::format("names {}, which has the column {}; Roll supports only texts", name,
                             other));
        columns.erase(other);
    }
    for (const char* const answer : {"chosen", "rejected", "kto_tag"}) columns.erase(answer);
    const Json tags = given_names(set.value("tags", Json::object()), "_tag");
    const Json::json_pointer at_columns("/data/columns"), at_tags("/data/tags");
    const Json& document = config.document;
    const bool differs =
        (document.contains(at_columns) && document[at_columns] != columns) ||
        (document.contains(at_tags) ? document[at_tags] != tags
                                    : document.contains(at_columns) && !tags.empty());
    if (differs)
        config.refuse(key,
                      fmt::format("names {}, whose columns or tags differ from those of another "
                                  "data set; all data sets must have the same columns and tags",
                                  name));
    config.set("data.columns", columns);
    if (!tags.empty()) config.set("data.tags", tags);
}

// Checks that the lines of a data set have the answers that the objective needs: pairs of answers,
// labelled answers, or neither. Sets data.label_field to the column of the label.
void read_answers(const Config& config, const std::string& key, const std::string& name,
                  const Json& set) {
    const Json columns = set.value("columns", Json::object());
    const bool pairs = set.value("ranking", Json(false)) == true,
               label = columns.contains("kto_tag");
    // There is no objective if `stage` was refused
    if (!config.document.contains("objective")) return;
    const std::string objective = config.objective();
    const bool labelled = objective == "kto", paired = spec::is_preference(objective) && !labelled;
    if (pairs && !paired)
        return config.refuse(key, fmt::format("names {}, whose lines are pairs of answers; set "
                                              "stage: dpo or rm",
                                              name));
    if (label && !labelled)
        return config.refuse(
            key, fmt::format("names {}, whose lines are labelled answers; set stage: kto", name));
    if (paired && !pairs)
        return config.refuse(key,
                             fmt::format("names {}, whose lines are not pairs of answers; name "
                                         "a data set with ranking: true",
                                         name));
    if (labelled && !label)
        return config.refuse(key, fmt::format("names {}, whose lines have no labels; name a data "
                                              "set with the column kto_tag",
                                              name));
    for (const char* const answer : {"chosen", "rejected"})
        if (paired && columns.value(answer, Json(answer)) != answer)
            config.refuse(key, fmt::format("names {0}, whose {1} answers are in the column {2}; "
                                           "allowed: the column {1}; rename the column in the "
                                           "file and in dataset_info.json",
                                           name, answer, dump(columns[answer])));
    if (labelled) config.set("data.label_field", columns["kto_tag"]);
}

// Sets the keys of the job file that name the fields of a line, from the `columns` of a data set.
void read_columns(const Config& config, const std::string& key, const std::string& name,
                  const Json& set) {
    read_answers(config, key, name, set);
    if (uses_template(config)) return read_conversations(config, key, name, set);
    const Json columns = set.value("columns", Json::object());
    const auto column = [&](const char* field, const char* standard) {
        return columns.value(field, Json(standard));
    };
    if (config.objective() == "pretrain") {
        config.set("data.field", column("prompt", "instruction"));
        return;
    }
    if (set.value("formatting", Json("alpaca")) != "alpaca")
        config.refuse(key, fmt::format("names {}, whose lines are conversations; set `template` to "
                                       "the family of the model",
                                       name));
    config.set("data.prompt_field", column("prompt", "instruction"));
    config.set("data.completion_field", column("response", "output"));
}

// Returns the data set of the Hub that an entry of dataset_info.json names; nullopt if the entry
// names a file.
std::optional<HubSet> hub_set_of(const Json& entry) {
    const auto text = [&](const char* key, const char* usual) {
        const Json value = entry.value(key, Json());
        return value.is_string() ? value.get<std::string>() : std::string(usual);
    };
    HubSet set{text("hf_hub_url", ""), text("subset", ""), text("split", "train")};
    if (set.name.empty() || entry.contains("file_name")) return std::nullopt;
    return set;
}

// Returns the absolute paths of the files of all data sets that `key` lists.
std::vector<std::string> files_of(const Config& config, const std::string& key, const Json& info) {
    std::vector<std::string> files;
    for (const std::string& name : config.names(key)) {
        if (!info.contains(name) || !info[name].is_object()) {
            config.refuse(key, fmt::format("names {}, which is not in dataset_info.json; add it "
                                           "there, or correct the name",
                                           name));
            continue;
        }
        const Json& set = info[name];
        if (const auto of_hub = hub_set_of(set)) {
            read_columns(config, key, name, set);
            for (std::string& path :
                 read_hub_set(config, key, *of_hub,
                              {key.c_str(), key.c_str(), "set its file_name in dataset_info.json"}))
                files.push_back(std::move(path));
            continue;
        }
        if (!set.contains("file_name") || !set["file_name"].is_string()) {
            config.refuse(key, fmt::format("names {}, which is not a local file; download it and "
                                           "set its file_name in dataset_info.json",
                                           name));
            continue;
        }
        const fs::path folder = config.text("dataset_dir").value_or("data");
        const std::string path = config.absolute(folder / set["file_name"].get<std::string>());
        if (const std::string problem = unreadable(path); !problem.empty()) {
            config.refuse(key, fmt::format("names {}, but {}", name, problem));
            continue;
        }
        read_columns(config, key, name, set);
        files.push_back(path);
    }
    return files;
}

// Returns true if the file has more than `most` records that are not empty. Reads no further than
// necessary.
bool has_more_records(std::string_view text, bool list, double most) {
    double count = 0;
    for (std::size_t at = 0; at < text.size() && count <= most;) {
        const JsonRecord record = record_at(text, list, at);
        if (!record.text.empty()) ++count;
        at = record.end;
    }
    return count > most;
}

// Refuses max_samples if a file has more samples, because Roll trains on whole files.
void read_max_samples(const Config& config, const std::vector<std::string>& files) {
    const auto most = config.number("max_samples");
    for (const std::string& path : files) {
        if (!most) return;
        const std::string kind = fs::path(path).extension();
        if (kind == ".parquet")
            return config.refuse("max_samples",
                                 fmt::format("is {}, but Roll trains on all rows of {}; remove "
                                             "this key",
                                             *most, path));
        const auto file = MappedFile::open(path);
        if (!file) continue;  // the check of data.train reports this file as unreadable
        const auto bytes = file->bytes();
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        const bool list = kind == ".json" && is_json_list(text);
        if (!has_more_records(text, list, *most)) continue;
        const std::string cut = list ? fmt::format("jq '.[:{}]' {}", *most, path)
                                     : fmt::format("head -n {} {}", *most, path);
        return config.refuse("max_samples",
                             fmt::format("is {}, but {} has more {}; cut the file: {}", *most, path,
                                         list ? "records" : "lines", cut));
    }
}

// Sets data.weights if LLaMA-Factory would draw each sample from one of the data sets by chance.
void read_mix(const Config& config) {
    const std::string mix = config.text("mix_strategy").value_or("concat");
    const std::size_t sets = config.names("dataset").size();
    if (mix == "concat" || sets < 2) return;
    if (mix != "interleave_under" && mix != "interleave_over")
        return config.refuse(
            "mix_strategy",
            fmt::format("is {}; supported: concat, interleave_under, interleave_over", mix));
    if (config.number("max_steps").value_or(-1) <= 0)
        return config.refuse(
            "mix_strategy",
            fmt::format("is {}, which needs max_steps, because Roll then draws samples without end",
                        mix));
    std::vector<double> weights = config.numbers("interleave_probs");
    if (weights.empty()) weights.assign(sets, 1);
    if (weights.size() != sets)
        return config.refuse("interleave_probs",
                             fmt::format("does not match `dataset` (number of values: {}, data "
                                         "sets: {}); give one value for each data set",
                                         weights.size(), sets));
    config.set("data.weights", weights);
}

}  // namespace

void read_data(const Config& config) {
    std::vector<std::string> train = config.names("train_file");
    read_named(config, train);
    for (std::string& path : train) path = config.absolute(path);
    std::vector<std::string> valid = config.names("validation_file");
    for (std::string& path : valid) path = config.absolute(path);
    if (config.has("dataset") || config.has("eval_dataset")) {
        const auto info = dataset_info(config);
        if (!info) return;
        for (std::string& path : files_of(config, "dataset", *info)) train.push_back(path);
        for (std::string& path : files_of(config, "eval_dataset", *info)) valid.push_back(path);
    }
    read_max_samples(config, train);
    read_max_samples(config, valid);
    if (!train.empty()) config.set("data.train", train);
    read_mix(config);
    const bool sized = config.document.contains(Json::json_pointer("/train/seq_length"));
    if (!sized && is_of_trl(config))
        config.set_default("max_length", "train.seq_length", 1024);
    else if (!sized)
        config.set_default("cutoff_len", "train.seq_length", 2048);
    const auto share = config.number("val_size");
    if (share && *share >= 1)
        config.refuse("val_size", fmt::format("is {}, which is a number of samples; set a "
                                              "fraction below 1, or name validation files with "
                                              "eval_dataset",
                                              *share));
    if (!valid.empty())
        config.set("data.valid", Json{{"eval", valid}});
    else
        config.set_default(share ? "val_size" : "no eval_dataset", "data.valid",
                           share.value_or(0.0));
}

void read_template(const Config& config) {
    if (config.objective() == "pretrain" || !config.has("template")) return;
    if (uses_template(config))
        config.foreign.remarks.push_back(fmt::format(
            "template {}: conversations are rendered with the chat template of the model's own "
            "directory; `rollctl data preview` shows the texts",
            config.text("template").value_or("")));
    if (config.objective() != "sft") return;
    const bool last = config.flag("mask_history"), all = config.flag("train_on_prompt");
    if (last && all)
        config.refuse("mask_history",
                      "cannot be used with train_on_prompt; remove one of these two keys");
    if (last || all) config.set("data.train_on", last ? "last" : "all");
}

}  // namespace roll::cli
