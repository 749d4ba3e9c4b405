#include "common/hub/dataset.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::hub {
namespace {

namespace fs = std::filesystem;

// A cache as `hf download` writes it, in a directory of its own.
class Dataset : public testing::Test {
  protected:
    Dataset() { ::setenv("HF_HUB_CACHE", folder_.c_str(), 1); }
    ~Dataset() override { ::unsetenv("HF_HUB_CACHE"); }

    void write(const std::string& set, const std::string& name, const std::string& text = "") {
        const fs::path file = snapshot(set) / name;
        fs::create_directories(file.parent_path());
        ASSERT_TRUE(write_file_atomically(file, text));
    }
    // Returns the files, relative to the snapshot, or the error message.
    std::vector<std::string> split(const std::string& set, const std::string& config,
                                   const std::string& name) {
        const auto files = split_files(set, config, name);
        if (!files) return {files.error().message};
        std::vector<std::string> found;
        for (const fs::path& file : *files) found.push_back(file.lexically_relative(snapshot(set)));
        return found;
    }
    fs::path snapshot(std::string set) const {
        set.replace(set.find('/'), 1, "--");
        return folder_ / ("datasets--" + set) / "snapshots" / "c1";
    }

    TemporaryFolder folder_;
};

using Texts = std::vector<std::string>;

TEST_F(Dataset, TheCardNamesTheFiles) {
    write("ann/set", "README.md",
          "---\nlicense: mit\nconfigs:\n- config_name: Easy\n  data_files:\n"
          "  - split: train\n    path: Easy/train-*\n"
          "  - split: test\n    path: [Easy/test-*, more/**]\n"
          "- config_name: Hard\n  default: true\n  data_dir: Hard\n---\n# Text\n");
    for (const char* file :
         {"Easy/train-0.parquet", "Easy/test-1.parquet", "Easy/test-0.parquet", "more/a/b.jsonl",
          "Hard/test.parquet", "Hard/train.parquet", "Easy/test-0.txt", "Easy/deep/test-0.parquet"})
        write("ann/set", file);
    EXPECT_EQ(split("ann/set", "Easy", "test"),
              (Texts{"Easy/test-0.parquet", "Easy/test-1.parquet", "more/a/b.jsonl"}));
    EXPECT_EQ(split("ann/set", "", "test"), Texts{"Hard/test.parquet"});
    EXPECT_EQ(split("ann/set", "Wrong", "test"),
              Texts{"dataset_name is \"Wrong\"; ann/set has: Easy, Hard"});
    EXPECT_NE(split("ann/set", "Easy", "validation")[0].find("of the split validation in "),
              std::string::npos);
}

TEST_F(Dataset, WithoutACardTheNamesOfFilesDecide) {
    for (const char* file : {"data/test-00000-of-00001.parquet", "data/dev.jsonl", "b/test.json",
                             "data/latest.jsonl", "dataset_infos.json"})
        write("ann/plain", file);
    EXPECT_EQ(split("ann/plain", "", "test"),
              (Texts{"b/test.json", "data/test-00000-of-00001.parquet"}));
    EXPECT_EQ(split("ann/plain", "b", "test"), Texts{"b/test.json"});
    EXPECT_EQ(split("ann/plain", "", "validation"), Texts{"data/dev.jsonl"});
}

TEST_F(Dataset, AMissingSetIsFetchedByACommand) {
    EXPECT_EQ(split("ann/none", "", "test"),
              Texts{"dataset_path is \"ann/none\", which is not in HuggingFace's cache " +
                    folder_.string() + "; run: hf download --repo-type dataset ann/none"});
    write("ann/two", "README.md", "---\nconfigs:\n- config_name: a\n- config_name: b\n---\n");
    EXPECT_EQ(split("ann/two", "", "test"), Texts{"dataset_name is missing; ann/two has: a, b"});
}

}  // namespace
}  // namespace roll::hub
