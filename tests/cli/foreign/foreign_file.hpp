// A directory with a model and data sets, and the configuration that the tests of foreign files
// change.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/foreign/foreign.hpp"
#include "common/spec/check/defaults.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// A directory with a model, two data sets and their dataset_info.json.
class ForeignFile : public testing::Test {
  public:
    ForeignFile() {
        std::filesystem::create_directories(base + "/model");
        std::filesystem::create_directories(base + "/other");
        std::filesystem::create_directories(base + "/data");
        std::filesystem::create_directories(base + "/more");
        const char* info = R"({
            "wiki": {"file_name": "wiki.jsonl", "columns": {"prompt": "text"}},
            "books": {"file_name": "books.jsonl"},
            "hub": {"hf_hub_url": "org/set"},
            "table": {"file_name": "table.arrow"},
            "list": {"file_name": "list.json", "columns": {"prompt": "text"}},
            "rows": {"file_name": "rows.parquet", "columns": {"prompt": "text"}},
            "pairs": {"file_name": "pairs.jsonl", "ranking": true},
            "labelled": {"file_name": "labelled.jsonl", "columns": {"kto_tag": "good"}},
            "chats": {"file_name": "chats.jsonl", "formatting": "sharegpt",
                "columns": {"messages": "dialog", "system": "rules"},
                "tags": {"role_tag": "who", "content_tag": "what", "user_tag": "me",
                         "assistant_tag": "it"}},
            "pictures": {"file_name": "p.jsonl", "columns": {"images": "images"}}})";
        std::ofstream(base + "/data/dataset_info.json") << info;
        std::ofstream(base + "/more/dataset_info.json") << info;
    }
    ~ForeignFile() override { std::filesystem::remove_all(base); }

    // Returns the configuration that all tests change.
    static Json config() {
        return Json::parse(R"({"model_name_or_path": "model", "stage": "pt",
            "finetuning_type": "full", "dataset": "wiki", "output_dir": "out/first",
            "per_device_train_batch_size": 2, "max_steps": 100})");
    }
    // Returns that configuration with other values. `others` is JSON.
    static Json config_with(const std::string& others) {
        Json changed = config();
        changed.update(Json::parse(others));
        return changed;
    }
    Json job(const Json& config) {
        Json document = config;
        foreign = translate(document, base);
        set_global_batch(foreign, document);
        return document;
    }
    // Returns the job file with all defaults, so that a value that is the default of its key is no
    // change.
    Json whole_job(const Json& config) {
        Json document = job(config);
        spec::fill_job(document, base);
        return document;
    }
    // Returns the messages of the problems, joined.
    std::string problems(const Json& config) {
        job(config);
        std::string all;
        for (const spec::Problem& one : foreign.problems)
            all += one.path + " " + one.message + "\n";
        return all;
    }

    const std::string base = testing::TempDir() + "foreign-" + std::to_string(::getpid());
    Foreign foreign;
};

inline constexpr const char* kDpo = R"({"stage": "dpo", "dataset": "pairs"})";
inline constexpr const char* kKto = R"({"stage": "kto", "dataset": "labelled"})";
// A configuration of TRL has neither a stage nor LLaMA-Factory's data sets.
inline constexpr const char* kTrlDpo =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "beta": 0.3})";
inline constexpr const char* kTrlSft =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "dataset_train_split": "train"})";
inline constexpr const char* kTrlLora =
    R"({"stage": null, "finetuning_type": null, "dataset": null, "dataset_name": "p.jsonl",
        "beta": 0.3, "use_peft": true, "lora_dropout": 0})";

}  // namespace roll::cli
