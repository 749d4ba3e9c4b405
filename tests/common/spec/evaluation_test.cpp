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

class Evaluation : public JobFiles {};

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
    json["train"]["early_stop"] = {
        {"patience", 3}, {"metric", "task_acc/arithmetic"}, {"mode", "min"}};
    EXPECT_EQ(problems(json),
              "train.early_stop.patience is 3, but train.evaluation.every is 0, so no task is "
              "measured during training; allowed: 0, or set train.evaluation.every\n");
    json["train"]["evaluation"] = {{"every", 10}};
    const ParsedJob job = parse(json);
    ASSERT_TRUE(job.ok());
    const TrainSpec train = train_spec(job.spec.document.text()).value();
    EXPECT_EQ(train.best.name, "task_acc/arithmetic");
    EXPECT_TRUE(train.best.higher);
    EXPECT_FALSE(train.early_stop.metric.higher);
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
    EXPECT_EQ(problems(json),
              "train.valid_every_of.newz is no set; allowed: a set in data.valid (both, tail)\n");
}

}  // namespace
}  // namespace roll::spec
