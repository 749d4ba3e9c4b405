#include "cli/foreign/hub.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/foreign/foreign.hpp"
#include "cli/submit/job_file.hpp"
#include "common/files.hpp"
#include "common/hub_cache.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// A cache as `hf download` writes it, in a directory of its own.
class Hub : public testing::Test {
  protected:
    void SetUp() override {
        ::setenv("HF_HUB_CACHE", (top_ / "hub").c_str(), 1);
        write("hub/models--Ann--small/refs/main", "c2\n");
        write("hub/models--Ann--small/snapshots/c1/config.json", "{}");
        write("hub/models--Ann--small/snapshots/c2/config.json", "{}");
        write("hub/models--old/snapshots/c3/config.json", "{}");
        write("hub/models--Ann--two/snapshots/c4/config.json", "{}");
        write("hub/models--Ann--two/snapshots/c5/config.json", "{}");
        write("hub/datasets--Ann--talk/snapshots/c6/test.jsonl", "");
        write("hub/datasets--Ann--talk/snapshots/c6/train-2.jsonl", "");
        write("hub/datasets--Ann--talk/snapshots/c6/train-1.jsonl", "");
        write("hub/datasets--Ann--talk/snapshots/c6/train.parquet", "");
    }
    void TearDown() override { ::unsetenv("HF_HUB_CACHE"); }
    void write(const std::string& name, const std::string& text) {
        fs::create_directories((top_ / name).parent_path());
        ASSERT_TRUE(write_file_atomically(top_ / name, text));
    }
    std::string in_hub(const std::string& name) const { return top_ / "hub" / name; }

    const TemporaryFolder top_;
};

TEST_F(Hub, TheCacheIsHuggingFaces) {
    EXPECT_EQ(hub_cache(), top_ / "hub");
    ::unsetenv("HF_HUB_CACHE");
    const std::pair<const char*, const char*> variables[] = {
        {"HF_HOME", "/home/hf/hub"}, {"XDG_CACHE_HOME", "/home/hf/huggingface/hub"}};
    for (const auto& [name, cache] : variables) {
        const char* const before = std::getenv(name);
        const std::string kept = before == nullptr ? "" : before;
        ::setenv(name, "/home/hf", 1);
        EXPECT_EQ(hub_cache(), cache);
        before == nullptr ? ::unsetenv(name) : ::setenv(name, kept.c_str(), 1);
    }
}

TEST_F(Hub, NamesAreTheSnapshotsOfTheirMainBranch) {
    EXPECT_EQ(cached_snapshot("Ann/small", HubKind::Model),
              in_hub("models--Ann--small/snapshots/c2"));
    EXPECT_EQ(cached_snapshot("old", HubKind::Model), in_hub("models--old/snapshots/c3"));
    for (const char* name : {"Ann/two", "Ann/other", "Ann/small/x", "../small", "/old", "", "a b"})
        EXPECT_EQ(cached_snapshot(name, HubKind::Model), std::nullopt) << name;
    EXPECT_EQ(cached_snapshot("Ann/small", HubKind::Dataset), std::nullopt);
}

TEST_F(Hub, NamesInAJobBecomeDirectoriesAndFiles) {
    write("old/config.json", "{}");
    Json document = Json::parse(R"({"model": {"from": "Ann/small"}, "tokenizer": "old",
        "objective": {"kind": "dpo", "reference": "Ann/small"},
        "data": {"train": ["Ann/talk", "own.jsonl"], "valid": {"x": "Ann/talk/test.jsonl"}},
        "then": [{"model": {"from": "Ann/small"}}, {"model": {"from": "{previous.result}"}}]})");
    std::vector<std::string> notes;
    ASSERT_TRUE(use_hub_cache(document, top_, notes));
    const std::string small = in_hub("models--Ann--small/snapshots/c2");
    const std::string talk = in_hub("datasets--Ann--talk/snapshots/c6/");
    EXPECT_EQ(document["model"]["from"], small);
    EXPECT_EQ(document["tokenizer"], "old") << "a path that exists is not a name";
    EXPECT_EQ(document["objective"]["reference"], small);
    EXPECT_EQ(document["data"]["train"],
              Json({talk + "train-1.jsonl", talk + "train-2.jsonl", "own.jsonl"}));
    EXPECT_EQ(document["data"]["valid"]["x"], Json({talk + "test.jsonl"}));
    EXPECT_EQ(document["then"][0]["model"]["from"], small);
    EXPECT_EQ(document["then"][1]["model"]["from"], "{previous.result}");
    ASSERT_EQ(notes.size(), 6U);
    EXPECT_EQ(notes[0], "model.from: Ann/small is " + small);
}

TEST_F(Hub, OneOfSeveralConfigurationsIsChosenByName) {
    const std::string folder = "hub/datasets--Ann--math/snapshots/c7/";
    const std::string card =
        "---\nconfigs:\n- config_name: main\n  data_dir: main\n- config_name: more\n  data_dir: "
        "more\n";
    write(folder + "README.md", card + "---\n");
    for (const char* file : {"main/train.jsonl", "main/test.jsonl", "more/train.jsonl"})
        write(folder + file, "");
    const auto told = [&](const std::string& name) {
        Json document;
        document["data"]["train"] = Json::array({name});
        std::vector<std::string> notes;
        const auto used = use_hub_cache(document, top_, notes);
        return used ? document["data"]["train"].dump() : used.error().message;
    };
    const std::string names =
        "the data set Ann/math has the configurations main, more; append one of them to the name, "
        "such as Ann/math:main";
    EXPECT_EQ(told("Ann/math"), names);
    EXPECT_EQ(told("Ann/math:none"), names);
    EXPECT_EQ(told("Ann/math:more"), Json({(top_ / folder / "more/train.jsonl").string()}).dump());
    EXPECT_EQ(told("Ann/none:more"), R"(["Ann/none:more"])");
    write(folder + "README.md", card + "  default: true\n---\n");
    EXPECT_EQ(told("Ann/math"), told("Ann/math:more")) << "the default one";
    const auto chosen = hub_files("Ann/math:main");
    ASSERT_TRUE(chosen);
    EXPECT_EQ(*chosen, std::vector{(top_ / folder / "main/train.jsonl").string()});
    fs::remove(top_ / folder / "main/train.jsonl");
    const auto none = hub_files("Ann/math:main");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message.find("the data set is \"Ann/math\", which has no "), 0U)
        << none.error().message;
}

TEST_F(Hub, TrlsDataSetIsReadFromTheCache) {
    const std::string train = in_hub("datasets--Ann--talk/snapshots/c6/");
    const auto job_of = [&](const std::string& name) {
        Json document{
            {"model_name_or_path", "Ann/small"}, {"output_dir", "out"}, {"dataset_name", name}};
        const Foreign foreign = translate(document, top_);
        EXPECT_TRUE(foreign.problems.empty()) << foreign.problems[0].message;
        return document;
    };
    EXPECT_EQ(job_of("Ann/talk")["data"]["train"],
              Json({train + "train-1.jsonl", train + "train-2.jsonl"}));
    EXPECT_EQ(job_of("Ann/talk/test.jsonl")["data"]["train"], Json({train + "test.jsonl"}));
    write("hub/datasets--Ann--math/snapshots/c7/README.md",
          "---\nconfigs:\n- config_name: main\n  data_dir: main\n- config_name: more\n---\n");
    write("hub/datasets--Ann--math/snapshots/c7/main/train.jsonl", "");
    write("hub/datasets--Ann--math/snapshots/c7/main/test.jsonl", "");
    write("hub/datasets--Ann--math/snapshots/c7/more/train.jsonl", "");
    const auto told = [&](Json document) {
        document.update({{"model_name_or_path", "Ann/small"}, {"output_dir", "out"}});
        const Foreign foreign = translate(document, top_);
        return foreign.problems.empty()
                   ? document["data"]["train"].dump()
                   : foreign.problems[0].path + " " + foreign.problems[0].message;
    };
    EXPECT_EQ(told({{"dataset_name", "Ann/math"}}),
              "dataset_config is missing; Ann/math has: main, more");
    const std::string main = in_hub("datasets--Ann--math/snapshots/c7/main/");
    EXPECT_EQ(told({{"dataset_name", "Ann/math"}, {"dataset_config", "main"}}),
              Json({main + "train.jsonl"}).dump());
    EXPECT_EQ(told({{"dataset_name", "Ann/math"},
                    {"dataset_config", "main"},
                    {"dataset_train_split", "test"}}),
              Json({main + "test.jsonl"}).dump());
    EXPECT_EQ(told({{"dataset_name", "own.jsonl"}, {"dataset_train_split", "test"}}),
              "dataset_train_split is test, but own.jsonl is a file, and a file has neither "
              "configurations nor splits; set dataset_name to the file with these data");
    write(
        "data/dataset_info.json",
        R"({"math": {"hf_hub_url": "Ann/math", "subset": "main"}, "no": {"hf_hub_url": "Ann/no"}})");
    Json factory{{"stage", "sft"}, {"template", "default"}, {"dataset", "math"}};
    EXPECT_EQ(told(factory), Json({main + "train.jsonl"}).dump());
    factory["dataset"] = "no";
    EXPECT_EQ(told(factory).find("dataset is \"Ann/no\", which is not in HuggingFace's cache "), 0U)
        << told(factory);
    write("Ann/talk/test.jsonl", "");
    EXPECT_EQ(job_of("Ann/talk/test.jsonl")["data"]["train"],
              Json({(top_ / "Ann/talk/test.jsonl").string()}))
        << "a path that exists is not a name";
}

TEST_F(Hub, WhatIsNotThereIsToldWithTheCommandThatFetchesIt) {
    write("models/x", "");
    write("own.jsonl", "{}\n");
    const auto told = [&](const std::string& from, const std::string& train) {
        const std::string text = R"({"kind": "train", "name": "a", "train": {"steps": 1,
            "seq_length": 8, "global_batch_size": 1}, "model": {"from": ")" +
                                 from + R"("}, "data": {"train": [")" + train + R"("]}})";
        std::string line = text;
        std::erase(line, '\n');
        auto sources = job_sources(line, (top_ / "job.json").native());
        EXPECT_TRUE(sources);
        EXPECT_TRUE(apply_options({}, sources->front()));
        const auto parsed = parse_sources(*sources);
        return parsed ? std::string() : parsed.error().message;
    };
    const std::string both = told("Ann/none", "Ann/words");
    EXPECT_NE(both.find("model.from is " + top_.native() +
                        "/Ann/none, which does not exist; to use Ann/none of the HuggingFace Hub, "
                        "run: hf download Ann/none"),
              std::string::npos)
        << both;
    EXPECT_NE(both.find("run: hf download --repo-type dataset Ann/words"), std::string::npos)
        << both;
    const std::string one = told("Ann/none", "Ann/words:more");
    EXPECT_NE(one.find("run: hf download --repo-type dataset Ann/words"), std::string::npos) << one;
    EXPECT_EQ(one.find("dataset Ann/words:more"), std::string::npos) << one;
    const std::string path = told("models/none", "own.jsonl");
    EXPECT_NE(path.find("models/none, which does not exist"), std::string::npos) << path;
    EXPECT_EQ(path.find("hf download"), std::string::npos) << path;
    const std::string text = told("models/none", "texts/none.txt");
    EXPECT_NE(text.find("texts/none.txt, which does not exist"), std::string::npos) << text;
    EXPECT_EQ(text.find("hf download"), std::string::npos) << text;
}

TEST_F(Hub, AFolderForModelsOrDataIsNoOwnerAndTheFilesCommentHasTheCommand) {
    for (const char* name : {"models/none", "data/none", "datasets/none", "./none", "/x/none"})
        for (const HubKind kind : {HubKind::Model, HubKind::Dataset})
            EXPECT_EQ(download_of(name, top_, kind), "") << name;
    const auto told = [&](const std::string& comment) {
        const std::string text = comment +
                                 "name: a\nkind: tokenize\ntokenizer: models/none\n"
                                 "data: {train: [x.txt]}\n";
        const auto sources = job_sources(text, (top_ / "job.yaml").native());
        EXPECT_TRUE(sources);
        const auto parsed = parse_sources(*sources);
        return parsed ? std::string() : parsed.error().message;
    };
    const std::string missing =
        "tokenizer is " + (top_ / "models/none").native() + ", which does not exist";
    const std::string bare = told("# hf download Ann/none --local-dir models/other\n");
    EXPECT_NE(bare.find(missing + "\n"), std::string::npos) << bare;
    const std::string command = "hf download Ann/none --local-dir examples/models/none";
    const std::string has = told("# An example:\n#   " + command + "\n");
    EXPECT_NE(has.find(missing + "; the command in the file's comment: " + command + "\n"),
              std::string::npos)
        << has;
}

}  // namespace
}  // namespace roll::cli
