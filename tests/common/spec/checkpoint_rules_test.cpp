// Tests which jobs can have checkpoints in the format torch_dist, and what a worker must know.
#include "common/spec/check/checkpoint_rules.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/spec/job/features.hpp"
#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

TEST(CheckpointFormat, TorchDistIsRefusedForStatesThatMegatronDoesNotStore) {
    const auto refused = [](const char* pointer, const Json& value) {
        Json document = Json::parse(R"({"checkpoint": {"format": "torch_dist"}, "train": {}})");
        EXPECT_TRUE(checkpoint_format_problems(document).empty());
        document[Json::json_pointer(pointer)] = value;
        const auto problems = checkpoint_format_problems(document);
        document["checkpoint"]["format"] = "mca";
        EXPECT_TRUE(checkpoint_format_problems(document).empty());
        return problems.empty() ? "" : problems[0].path + " " + problems[0].message;
    };
    EXPECT_EQ(refused("/train/optimizer/kind", "lion"),
              "checkpoint.format is torch_dist, which cannot hold the state of "
              "train.optimizer.kind lion; allowed: mca, or set kind to adamw or adam");
    EXPECT_EQ(refused("/train/optimizer/kind", "adam"), "");
    EXPECT_NE(refused("/train/ema", {{"decay", 0.9}}), "");
    EXPECT_NE(refused("/train/lora", {{"r", 4}}), "");
    EXPECT_NE(refused("/model/freeze", Json::array({"embedding.*"})), "");
    EXPECT_EQ(refused("/model/freeze", Json::array()), "");
    EXPECT_NE(refused("/objective", "reward"), "");
    EXPECT_NE(refused("/objective", {{"kind", "reward"}}), "");
    EXPECT_NE(refused("/checkpoint/keep_optimizer", 1), "");
    EXPECT_EQ(refused("/checkpoint/keep_optimizer", 0), "");
}

using TrainFeatures = JobFiles;

TEST_F(TrainFeatures, AJobNeedsAWorkerThatKnowsItsValues) {
    using Needs = std::vector<std::string>;
    std::ofstream(base + "/pairs.jsonl") << R"({"prompt": "a", "completion": "b"})";
    const auto needs = [&](const char* pointer, const Json& value) {
        Json json = train_file();
        json["model"] = {{"from", base}};
        json["objective"] = "sft";
        json["data"]["train"] = {"pairs.jsonl"};
        json[Json::json_pointer(pointer)] = value;
        EXPECT_EQ(problems(json), "");
        return parse(json).spec.needs;
    };
    EXPECT_EQ(needs("/checkpoint/format", "torch_dist"), Needs{kTorchDist});
    EXPECT_EQ(needs("/checkpoint/format", "mca"), Needs{});
    EXPECT_EQ(needs("/data/truncate", "start"), Needs{kLongRows});
    EXPECT_EQ(needs("/data/truncate", "end"), Needs{});
    EXPECT_EQ(needs("/data/packing", "wrapped"), Needs{kLongRows});
    EXPECT_EQ(needs("/data/packing", "best_fit"), Needs{});
    EXPECT_EQ(needs("/train/lora", {{"r", 4}, {"layers", 1}}), Needs{kLoraLayers});
    EXPECT_EQ(needs("/train/lora", {{"r", 4}, {"from", "/"}}), Needs{kLoraFrom});
    EXPECT_EQ(needs("/train/lora", {{"r", 4}}), Needs{});
    EXPECT_EQ(needs("/train/on_spike", "skip"), Needs{kSpikes});
    EXPECT_EQ(needs("/train/on_spike", "ignore"), Needs{});
    EXPECT_EQ(needs("/train/optimizer/offload", "state"), Needs{kOffload});
    EXPECT_EQ(needs("/train/optimizer/offload", "none"), Needs{});
    EXPECT_EQ(needs("/train/optimizer", {{"offload", "state"}, {"offload_fraction", 0.5}}),
              (Needs{kOffload, kOffloadFraction}));
    EXPECT_EQ(needs("/train/activation_offload", "saved"), Needs{kActivationOffload});
    EXPECT_EQ(needs("/train/activation_offload", "none"), Needs{});
    EXPECT_EQ(needs("/parallel/stages", "cost"), Needs{kStages});
    EXPECT_EQ(needs("/parallel/stages", "even"), Needs{});
    EXPECT_EQ(needs("/checkpoint/every", 5), Needs{});
}

TEST_F(TrainFeatures, AnExportDuringTrainingNeedsCheckpointsAndAWorkerThatMakesIt) {
    Json json = train_file();
    json["export"] = {{"every", 2}};
    EXPECT_EQ(problems(json),
              "export.every is 2, but checkpoint.every is 0, so no checkpoint is written during "
              "training; set checkpoint.every, or set export.every to 0\n");
    json["checkpoint"] = {{"every", 5}};
    EXPECT_EQ(problems(json), "");
    const ParsedJob job = parse(json);
    EXPECT_EQ(job.spec.needs, std::vector<std::string>{kExports});
    const TrainSpec spec = train_spec(job.spec.document.text()).value();
    EXPECT_EQ(std::pair(spec.export_every, spec.export_keep),
              std::pair(std::int64_t{2}, std::int64_t{2}));
    // The job after training gets no key that roll-convert does not know.
    EXPECT_EQ(job.spec.export_document.find("every"), std::string::npos);
    json["export"]["keep"] = 0;
    EXPECT_EQ(problems(json), "export.keep is 0; allowed: an integer, 1 to 1000\n");
}

}  // namespace
}  // namespace roll::spec
