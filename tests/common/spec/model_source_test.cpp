#include "common/spec/train/model_source.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class ModelSourceKeys : public JobFiles {};

TEST_F(ModelSourceKeys, TheOptimizerOfACheckpointNeedsItsWeightsUnchanged) {
    Json json = train_file();
    json["model"]["optimizer"] = true;
    EXPECT_EQ(problems(json),
              "model.optimizer needs model.from, the checkpoint with the optimizer's state\n");
    std::filesystem::create_directory(base + "/start");
    json["model"] = {{"from", "start"}, {"optimizer", true}};
    ASSERT_EQ(problems(json), "");
    EXPECT_TRUE(train_spec(parse(json).spec.document.text())->model.optimizer);
    json["model"]["adapters"] = {"start"};
    json["train"]["optimizer"] = {{"kind", "lion"}};
    EXPECT_EQ(
        problems(json),
        "model.optimizer is true, but with model.adapters the job does not train the weights to "
        "which the optimizer state in model.from belongs; remove model.optimizer or "
        "model.adapters\nmodel.optimizer is true, but train.optimizer.kind is \"lion\"; allowed: "
        "the kinds adamw, adam and sgd, whose state has the shapes of the weights\n");
}

TEST_F(ModelSourceKeys, AnEmptyPathIsRefusedAndIsNotTheFolderOfTheJobFile) {
    Json json = train_file();
    json["model"] = {{"from", ""}};
    EXPECT_EQ(problems(json), "model.from is empty\n");
}

}  // namespace
}  // namespace roll::spec
