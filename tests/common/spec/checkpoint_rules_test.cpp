// Tests which jobs can have checkpoints in the format torch_dist.
#include "common/spec/checkpoint_rules.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace roll::spec
