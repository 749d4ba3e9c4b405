#include "cli/foreign_data.hpp"

#include <fmt/format.h>

#include "common/files.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Returns the problem of a data file that Roll cannot read; empty if there is none.
std::string unreadable(const std::string& path) {
    const std::string kind = fs::path(path).extension();
    if (kind == ".jsonl" || kind == ".txt") return "";
    if (kind == ".json")
        return fmt::format(
            "is read from {0}; Roll reads .jsonl and .txt: jq -c '.[]' {0} > {1}.jsonl", path,
            fs::path(path).replace_extension().string());
    return fmt::format("is read from {}; Roll reads .jsonl and .txt", path);
}

// Returns the data sets of the dataset_info.json of LLaMA-Factory.
std::optional<Json> dataset_info(const Config& config) {
    const std::string path =
        config.absolute(config.text("dataset_dir").value_or("data")) + "/dataset_info.json";
    const auto text = read_file(path);
    if (!text) {
        config.refuse("dataset_dir", text.error().message);
        return std::nullopt;
    }
    auto json = parse_json(*text);
    if (json && json->is_object()) return *json;
    config.refuse("dataset_dir", fmt::format("{} is not a JSON object{}", path,
                                             json ? "" : ": " + json.error().message));
    return std::nullopt;
}

// Sets the job-file keys that name the fields of a data line, from the `columns` of a data set.
void read_columns(const Config& config, const Json& set) {
    const Json columns = set.value("columns", Json::object());
    const auto column = [&](const char* name, const char* standard) {
        return columns.value(name, Json(standard));
    };
    if (config.document.value("objective", "") == "pretrain") {
        config.set("data.field", column("prompt", "instruction"));
        return;
    }
    config.set("data.prompt_field", column("prompt", "instruction"));
    config.set("data.completion_field", column("response", "output"));
}

// Returns the absolute paths of the files of the data sets that `key` names.
std::vector<std::string> files_of(const Config& config, const std::string& key, const Json& info) {
    std::vector<std::string> files;
    for (const std::string& name : config.names(key)) {
        if (!info.contains(name) || !info[name].is_object()) {
            config.refuse(key,
                          fmt::format("names {}, which dataset_info.json does not have", name));
            continue;
        }
        const Json& set = info[name];
        if (!set.contains("file_name") || !set["file_name"].is_string()) {
            config.refuse(key, fmt::format("names {}, which is not a local file; download it and "
                                           "set its file_name in dataset_info.json",
                                           name));
            continue;
        }
        const std::string folder = config.text("dataset_dir").value_or("data");
        const std::string path =
            config.absolute(folder + "/" + set["file_name"].get<std::string>());
        if (const std::string problem = unreadable(path); !problem.empty()) {
            config.refuse(key, fmt::format("names {}, which {}", name, problem));
            continue;
        }
        if (set.value("ranking", Json(false)) == true)
            config.refuse(key, fmt::format("names {}, whose lines are pairs of answers; preference "
                                           "training is not implemented",
                                           name));
        read_columns(config, set);
        files.push_back(path);
    }
    return files;
}

}  // namespace

void read_data(const Config& config) {
    std::vector<std::string> train = config.names("train_file");
    for (std::string& path : train) path = config.absolute(path);
    std::vector<std::string> valid = config.names("validation_file");
    for (std::string& path : valid) path = config.absolute(path);
    if (config.has("dataset") || config.has("eval_dataset")) {
        const auto info = dataset_info(config);
        if (!info) return;
        for (std::string& path : files_of(config, "dataset", *info)) train.push_back(path);
        for (std::string& path : files_of(config, "eval_dataset", *info)) valid.push_back(path);
    }
    if (!train.empty()) config.set("data.train", train);
    const bool sized = config.document.contains(Json::json_pointer("/train/seq_length"));
    if (!sized) config.set_default("cutoff_len", "train.seq_length", 2048);
    const auto share = config.number("val_size");
    if (share && *share >= 1)
        config.refuse("val_size", fmt::format("is {}, a number of samples; allowed: a fraction "
                                              "below 1, or files with eval_dataset",
                                              *share));
    if (!valid.empty())
        config.set("data.valid", Json{{"eval", valid}});
    else
        config.set_default(share ? "val_size" : "no eval_dataset", "data.valid",
                           share.value_or(0.0));
}

// Refuses chat templates, because a job file's prompts and completions are used unchanged.
void read_template(const Config& config) {
    if (config.document.value("objective", "") != "sft" || !config.has("template")) return;
    const std::string name = config.text("template").value_or("");
    if (name != "empty")
        config.refuse("template",
                      fmt::format("is {}; supported: empty. Write the marks of the turns "
                                  "into the prompts and completions",
                                  name));
    if (config.flag("mask_history"))
        config.refuse("mask_history", "is true; a line has one prompt and one completion");
}

}  // namespace roll::cli
