// A folder with a corpus, and job files that are parsed in it.
#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/schema/problem.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::spec {

class JobFiles : public ::testing::Test {
  protected:
    void SetUp() override { std::ofstream(base + "/corpus.txt") << "In the beginning"; }

    Json train_file() const {
        return Json::parse(R"({
            "name": "kjv", "kind": "train",
            "resources": {"slots_per_node": 2, "time": "30m"},
            "model": {"family": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                      "num_attention_heads": 4, "intermediate_size": 128},
            "data": {"train": ["corpus.txt"]},
            "train": {"seq_length": 32, "global_batch_size": 8, "micro_batch_size": 2, "steps": 10}
        })");
    }

    ParsedJob parse(const Json& json) const { return check_job(json, base); }

    // Returns the problems as lines of the form "path message".
    std::string problems(const Json& json) const {
        std::string text;
        for (const Problem& problem : parse(json).problems) {
            text += problem.path + " " + problem.message + "\n";
        }
        return text;
    }

    TemporaryFolder temporary_;
    std::string base = temporary_.string();
};

}  // namespace roll::spec
