// train.ema, train.best, train.early_stop and train.evaluation in job files.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class Evaluation : public JobFiles {
  protected:
    void SetUp() override {
        JobFiles::SetUp();
        std::ofstream(base + "/task.yaml") << "task: arithmetic";
    }
};

TEST_F(Evaluation, TheAverageOfTheWeightsIsUsedOnlyIfThereIsOne) {
    Json json = train_file();
    json["export"] = {{"weights", "ema"}};
    json["train"]["evaluation"] = {{"weights", "ema"}};
    EXPECT_EQ(problems(json),
              "export.weights is `ema`, but the job has no train.ema; allowed: last, or set "
              "train.ema\n"
              "train.evaluation.weights is `ema`, but the job has no train.ema; allowed: last, or "
              "set train.ema\n");
    json["train"]["ema"] = {{"decay", 0.99}};
    const ParsedJob job = parse(json);
    ASSERT_TRUE(job.ok());
    EXPECT_EQ(Json::parse(job.spec.export_document)["convert"]["state"], "ema");
    const TrainSpec train = train_spec(job.spec.document.text()).value();
    EXPECT_EQ(train.optimizer.ema.decay, 0.99);
    EXPECT_EQ(train.optimizer.ema.every, 1);
    EXPECT_TRUE(train.evaluation.averaged && train.export_averaged);
    json["train"]["ema"]["decay"] = 1;
    EXPECT_NE(problems(json).find("train.ema.decay is 1"), std::string::npos);
    json["train"]["ema"]["decay"] = 0.99;
    json["checkpoint"]["keep_best"] = true;
    json["checkpoint"]["keep_optimizer"] = 1;
    EXPECT_EQ(problems(json),
              "checkpoint.keep_optimizer is 1, but the best checkpoint must keep its optimizer "
              "state, because export.weights is `ema`; allowed: 0\n");
}

TEST_F(Evaluation, AnyMetricDecidesAboutTheBestCheckpointAndEarlyStop) {
    Json json = train_file();
    json["train"]["best"] = {{"metric", "task_acc/arithmetic"}};
    EXPECT_EQ(problems(json),
              "train.best selects the best checkpoint, but checkpoint.keep_best is false; remove "
              "train.best, or set checkpoint.keep_best to true\n");
    json["checkpoint"]["keep_best"] = true;
    json["data"]["valid"] = 0;  // a task needs no validation set
    json["train"]["evaluation"] = {{"tasks", {"task.yaml"}}};
    json["train"]["early_stop"] = {
        {"patience", 3}, {"metric", "task_acc/arithmetic"}, {"mode", "min"}};
    EXPECT_EQ(problems(json),
              "train.early_stop.patience is 3, but train.evaluation.every is 0, so no task is "
              "measured during training; allowed: 0, or set train.evaluation.every\n");
    json["train"]["evaluation"]["every"] = 10;
    const ParsedJob job = parse(json);
    ASSERT_TRUE(job.ok());
    const TrainSpec train = train_spec(job.spec.document.text()).value();
    EXPECT_EQ(train.best.name, "task_acc/arithmetic");
    EXPECT_TRUE(train.best.higher);
    EXPECT_FALSE(train.early_stop.metric.higher);
}

TEST_F(Evaluation, TheMetricIsOneThatTheJobMeasures) {
    const auto refused = [&](const char* metric, const Json& keys = Json::object()) {
        Json json = train_file();
        json["train"]["valid_every"] = 5;
        json["train"]["evaluation"]["every"] = 0;
        json["train"]["early_stop"] = {{"patience", 3}, {"metric", metric}};
        json.merge_patch(keys);
        return problems(json);
    };
    EXPECT_EQ(refused("accuracy"),
              "train.early_stop.metric is accuracy, which this job does not measure; allowed: "
              "valid_loss, valid_perplexity, valid_bits_per_byte, ngram2_bits_per_byte, or "
              "task_acc/TASK\n");
    const Json sets{{"data", {{"valid", {{"tail", 0.25}}}}}};
    EXPECT_EQ(refused("valid_loss/tail", sets), "");
    EXPECT_EQ(refused("valid_perplexity", sets), "");
    EXPECT_EQ(refused("valid_loss/head", sets),
              "train.early_stop.metric is valid_loss/head, which this job does not measure; "
              "allowed: valid_loss, valid_perplexity, valid_bits_per_byte, ngram2_bits_per_byte, "
              "each also with /SET (a set in data.valid, such as valid_loss/tail), or "
              "task_acc/TASK\n");
    EXPECT_EQ(refused("task_f1/x"),
              "train.early_stop.metric is task_f1/x; allowed for a task: task_acc/TASK or "
              "task_acc_norm/TASK\n"
              "train.early_stop.patience is 3, but train.evaluation.every is 0, so no task is "
              "measured during training; allowed: 0, or set train.evaluation.every\n");
    const Json best{{"checkpoint", {{"keep_best", true}}},
                    {"train", {{"early_stop", nullptr}, {"best", {{"metric", "task_acc/x"}}}}}};
    EXPECT_EQ(refused("", best),
              "train.best.metric is task_acc/x, but train.evaluation.tasks names no task; set "
              "tasks, or choose a metric of the validation, such as valid_loss\n");
}

TEST_F(Evaluation, TheNameOfASetIsInDataValid) {
    Json json = train_file();
    json["data"]["track"] = "none";
    EXPECT_EQ(problems(json),
              "data.track is none; allowed: no value, because data.valid has no named sets\n");
    json["data"]["valid"] = {{"tail", 0.25}, {"both", {"corpus.txt"}}};
    EXPECT_EQ(problems(json), "data.track is none; allowed: a set in data.valid (both, tail)\n");
    json["data"].erase("track");
    json["train"]["valid_every_of"]["newz"] = 10;
    EXPECT_EQ(
        problems(json),
        "train.valid_every_of.newz is not a set; allowed: a set in data.valid (both, tail)\n");
}

}  // namespace
}  // namespace roll::spec
