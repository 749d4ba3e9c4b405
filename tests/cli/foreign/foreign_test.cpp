#include <algorithm>
#include <tuple>

#include "tests/cli/foreign/foreign_file.hpp"

namespace roll::cli {
namespace {

TEST_F(ForeignFile, IsAJobFileWithTheSameMeaning) {
    const Json got = job(config());
    EXPECT_EQ(problems(config()), "");
    EXPECT_EQ(got, Json::parse(R"({"kind": "train", "name": "first", "objective": "pretrain",
        "output": ")" + base + R"(/out/first", "model": {"from": ")" +
                               base + R"(/model"},
        "resources": {"nodes": 1, "slots_per_node": 1},
        "data": {"train": [")" +
                               base + R"(/data/wiki.jsonl"], "field": "text", "valid": 0.0,
                 "attention": "across_documents"},
        "train": {"micro_batch_size": 2, "global_batch_size": 2, "steps": 100, "seed": 42,
            "seq_length": 2048, "precision": "fp32",
            "optimizer": {"lr": 5e-5, "schedule": "linear", "warmup_steps": 0,
                "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "clip_grad": 1.0}},
        "checkpoint": {"every": 500, "keep": 1000000000}, "export": {"dtype": "fp32"}})"));
}

TEST_F(ForeignFile, TheStepHasASequenceForEachMicrobatchAndReplica) {
    Json changed = config();
    changed["gradient_accumulation_steps"] = 4;
    changed["tensor_model_parallel_size"] = 2;
    changed["pipeline_model_parallel_size"] = 2;
    Json document = job(changed);
    EXPECT_EQ(document["resources"]["slots_per_node"], 4);
    EXPECT_EQ(document["train"]["global_batch_size"], 8);
    document["resources"] = {{"nodes", 2}, {"gpus_per_node", 8}, {"slots_per_node", 3}};
    set_global_batch(foreign, document);
    EXPECT_EQ(document["train"]["global_batch_size"], 32);  // dp 4
}

TEST_F(ForeignFile, EvalStepsCountsWithItsStrategy) {
    Json changed = config();
    changed["eval_strategy"] = "steps";
    changed["eval_steps"] = 20;
    EXPECT_EQ(job(changed)["train"]["valid_every"], 20);
    changed["eval_steps"] = 0.5;  // a share of max_steps
    EXPECT_EQ(job(changed)["train"]["valid_every"], 50);
    changed.erase("eval_steps");
    changed["logging_steps"] = 5;
    EXPECT_EQ(job(changed)["train"]["valid_every"], 5);
}

TEST_F(ForeignFile, EpochsCountWithoutSteps) {
    Json changed = config();
    changed["num_train_epochs"] = 2.5;
    EXPECT_EQ(job(changed), job(config()));  // max_steps decides
    changed["max_steps"] = -1;
    changed["warmup_ratio"] = 0.1;
    const Json train = job(changed)["train"];
    EXPECT_EQ(problems(changed), "");
    EXPECT_EQ(train["epochs"], 2.5);
    EXPECT_FALSE(train.contains("steps"));
    EXPECT_EQ(train["optimizer"]["warmup_ratio"], 0.1);
    EXPECT_FALSE(train["optimizer"].contains("warmup_steps"));
    changed["warmup_steps"] = 7;
    EXPECT_EQ(job(changed)["train"]["optimizer"]["warmup_steps"], 7);
    changed.erase("num_train_epochs");
    EXPECT_EQ(job(changed)["train"]["epochs"], 3);
    changed["num_train_epochs"] = 0;
    EXPECT_EQ(problems(changed), "num_train_epochs is 0; allowed: more than 0\n");
    changed.erase("num_train_epochs");
    changed["save_steps"] = 0.5;
    EXPECT_EQ(
        problems(changed),
        "save_steps is 0.5, a fraction of all steps; with num_train_epochs, set this key to a "
        "number of steps\n");
}

TEST_F(ForeignFile, EachProblemIsNamed) {
    std::ofstream(base + "/data/wiki.jsonl") << "{}\n{}\n{}\n";
    const std::vector<std::tuple<const char*, const char*, const char*>> cases{
        {"learnin_rate", "1",
         "is not a key of the HuggingFace Trainer, TRL, LLaMA-Factory or mcore_adapter; did "
         "you mean `learning_rate`?"},
        {"model_name_or_path", R"("org/name")",
         "is org/name, which is neither a directory nor in HuggingFace's cache"},
        {"stage", R"("ppo")", "is ppo; supported: pt, sft, rm, dpo, kto"},
        {"finetuning_type", R"("oft")", "is oft; supported: full, lora"},
        {"dataset", R"("news")", "names news, which is not in dataset_info.json"},
        {"dataset", R"("hub")", R"(is "org/set", which is not in HuggingFace's cache)"},
        {"dataset", R"("table")", "Roll does not read the file "},
        {"dataset_dir", R"("nowhere")", "nowhere/dataset_info.json"},
        {"max_samples", "2", "is 2, but "},
        {"max_samples", R"("few")", R"(is "few"; allowed: a number)"},
        {"val_size", "100", "is 100, which is a number of samples"},
        {"per_device_train_batch_size", "0", "is 0; allowed: a positive integer"},
        {"gradient_accumulation_steps", "1.5", "is 1.5; allowed: a positive integer"},
        {"lr_scheduler_type", R"("polynomial")", "is polynomial; supported: linear"},
        {"lr_scheduler_kwargs", R"({"num_cycles": 2})", "is not supported; supported: min_lr"},
        {"warmup_steps", R"("many")", R"(is "many"; allowed: a number)"},
        {"save_strategy", R"("epoch")", "is epoch; supported: steps, best, no"},
        {"eval_strategy", R"("epoch")", "is epoch; supported: steps, no"},
        {"bf16", "1", "is 1; allowed: true or false"},
        {"fp16", "1", "is 1; allowed: true or false"},
        {"optim", R"("galore_adamw")", "is galore_adamw; supported: adamw_torch"}};
    for (const auto& [key, value, message] : cases) {
        Json changed = config();
        changed[key] = Json::parse(value);
        EXPECT_NE(problems(changed).find(message), std::string::npos)
            << key << ": " << problems(changed);
    }
    Json enough = config();
    enough["max_samples"] = 3;
    EXPECT_EQ(problems(enough), "") << "no file has more";
}

TEST_F(ForeignFile, MaxSamplesCountsTheRecordsOfAJsonFile) {
    Json changed = config();
    changed["dataset"] = "list";
    changed["max_samples"] = 2;
    std::ofstream(base + "/data/list.json") << "[\n{\n\"text\": \"],\"\n},\n{\n}\n]\n";
    EXPECT_EQ(problems(changed), "") << "two records in seven lines";
    std::ofstream(base + "/data/list.json") << R"([{}, {}, {}])";
    const std::string path = base + "/data/list.json";
    EXPECT_EQ(problems(changed), "max_samples is 2, but " + path +
                                     " has more records; cut the file: jq '.[:2]' " + path + "\n");
    changed["dataset"] = "rows";
    EXPECT_EQ(problems(changed), "max_samples is 2, but Roll trains on all rows of " + base +
                                     "/data/rows.parquet; remove this key\n");
}

TEST_F(ForeignFile, TheMetricOfTheBestModelDecides) {
    Json changed = config();
    changed["metric_for_best_model"] = "eval_rewards/accuracies";
    EXPECT_EQ(job(changed), job(config()));  // nothing keeps the best model or stops early
    changed["load_best_model_at_end"] = true;
    Json train = job(changed)["train"];
    EXPECT_EQ(train["best"], Json({{"metric", "valid_rewards/accuracies"}}));
    EXPECT_FALSE(train.contains("early_stop"));
    changed["early_stopping_steps"] = 4;
    changed["metric_for_best_model"] = "code_loss";
    changed["greater_is_better"] = false;
    train = job(changed)["train"];
    const Json metric = {{"metric", "valid_loss/code"}, {"mode", "min"}};
    EXPECT_EQ(train["best"], metric);
    EXPECT_EQ(train["early_stop"]["metric"], "valid_loss/code");
    EXPECT_EQ(train["early_stop"]["patience"], 4);
    changed["metric_for_best_model"] = "rouge-l";
    EXPECT_TRUE(
        problems(changed).starts_with("metric_for_best_model is rouge-l; supported: loss,"));
}

TEST_F(ForeignFile, TheOptimizerIsThatOfTheFile) {
    Json changed = config();
    EXPECT_FALSE(job(changed)["train"]["optimizer"].contains("kind"));
    for (const auto& [name, kind] :
         {std::pair("adamw_torch_fused", "adamw"), {"lion_32bit", "lion"}, {"sgd", "sgd"}}) {
        changed["optim"] = name;
        EXPECT_EQ(job(changed)["train"]["optimizer"]["kind"], kind);
    }
    changed.erase("optim");
    changed["use_muon"] = true;
    EXPECT_EQ(job(changed)["train"]["optimizer"]["kind"], "muon");
    EXPECT_EQ(job(changed)["train"]["optimizer"]["update_scale"], "match_rms_adamw");
    EXPECT_EQ(problems(changed), "");
}

TEST_F(ForeignFile, LoraHasLlamaFactorysDefaults) {
    Json changed = config();
    EXPECT_FALSE(job(changed)["train"].contains("lora"));
    changed["finetuning_type"] = "lora";
    EXPECT_EQ(job(changed)["train"]["lora"],
              (Json{{"r", 8}, {"alpha", 16}, {"targets", "all-linear"}}));
    const Json given = {{"lora_rank", 4},
                        {"lora_target", "q_proj, v_proj"},
                        {"lora_dropout", 0.1},
                        {"loraplus_lr_ratio", 16},
                        {"use_dora", true},
                        {"use_rslora", true},
                        {"additional_target", "embed_tokens,lm_head"}};
    changed.update(given);
    EXPECT_EQ(job(changed)["train"]["lora"],
              (Json{{"r", 4},
                    {"alpha", 8},
                    {"targets", {"q_proj", "v_proj"}},
                    {"dropout", 0.1},
                    {"lr_ratio", 16},
                    {"dora", true},
                    {"rslora", true},
                    {"modules_to_save", {"embed_tokens", "lm_head"}}}));
}

TEST_F(ForeignFile, AdaptersAreMergedOrTrainedFurther) {
    Json changed = config();
    changed["adapter_name_or_path"] = "a, b";
    EXPECT_EQ(problems(changed), "adapter_name_or_path needs finetuning_type lora\n");
    changed["finetuning_type"] = "lora";
    changed["lora_rank"] = 4;
    Json got = job(changed);
    EXPECT_EQ(problems(changed), "");
    EXPECT_EQ(got["model"]["adapters"], Json({base + "/a"}));
    EXPECT_EQ(got["train"]["lora"], Json({{"from", base + "/b"}}));  // with the adapter's settings
    changed["adapter_name_or_path"] = {1};
    EXPECT_EQ(problems(changed),
              "adapter_name_or_path is [1]; allowed: a text, or a list of texts\n");
    changed["adapter_name_or_path"] = "a, b";
    changed["create_new_adapter"] = true;
    changed["adapter_folder"] = "last";
    got = job(changed);
    EXPECT_EQ(got["model"]["adapters"], Json({base + "/a/last", base + "/b/last"}));
    EXPECT_EQ(got["train"]["lora"]["r"], 4);
    changed = config_with(R"({"stage": "dpo", "dataset": "pairs", "finetuning_type": "lora",
                                   "adapter_name_or_path": "a"})");
    EXPECT_EQ(job(changed)["objective"]["reference"], base + "/model");
}

TEST_F(ForeignFile, TheFileOfADataSetMayHaveAnAbsolutePath) {
    std::ofstream(base + "/data/dataset_info.json")
        << R"({"wiki": {"file_name": "/sets/wiki.jsonl", "columns": {"prompt": "text"}}})";
    EXPECT_EQ(job(config())["data"]["train"], Json({"/sets/wiki.jsonl"}));
}

TEST_F(ForeignFile, InterleavedDataSetsHaveWeights) {
    Json changed = config();
    changed["mix_strategy"] = "interleave_under";
    EXPECT_EQ(job(changed), job(config()));  // one data set
    changed["dataset"] = "wiki,list";
    EXPECT_EQ(job(changed)["data"]["weights"], Json({1.0, 1.0}));
    changed["interleave_probs"] = "0.7, 0.3";
    EXPECT_EQ(job(changed)["data"]["weights"], Json({0.7, 0.3}));
    EXPECT_EQ(problems(changed), "");
    changed["interleave_probs"] = "0.7";
    EXPECT_EQ(problems(changed),
              "interleave_probs has 1 values, but `dataset` lists 2 data sets\n");
    changed["interleave_probs"] = {0.7, 0.3};
    EXPECT_EQ(job(changed)["data"]["weights"], Json({0.7, 0.3}));
    changed["interleave_probs"] = "0.7, most";
    EXPECT_EQ(problems(changed), "interleave_probs is \"0.7, most\"; allowed: a list of numbers\n");
    changed["mix_strategy"] = "interleave_once";
    EXPECT_EQ(problems(changed),
              "mix_strategy is interleave_once; supported: concat, interleave_under, "
              "interleave_over\n");
    changed["mix_strategy"] = "interleave_over";
    changed.erase("max_steps");
    EXPECT_TRUE(problems(changed).starts_with("mix_strategy is interleave_over, which needs max_"));
}

TEST_F(ForeignFile, TrackersAreProgramsOfTheirOwn) {
    Json changed = config();
    changed["report_to"] = {"wandb"};
    EXPECT_EQ(job(changed), job(config()));
    EXPECT_TRUE(foreign.remarks[0].starts_with("report_to wandb: a program of its own copies"));
}

TEST_F(ForeignFile, SequenceParallelismNeedsTensorParallelism) {
    Json changed = config();
    changed["sequence_parallel"] = true;
    EXPECT_FALSE(job(changed).contains("parallel"));
    changed["tensor_model_parallel_size"] = 2;
    EXPECT_EQ(job(changed)["parallel"]["sequence"], true);
}

TEST_F(ForeignFile, TheTemplateEmptyLeavesPromptsAsTheyAre) {
    Json changed = config();
    changed["stage"] = "sft";
    changed["template"] = "empty";
    EXPECT_EQ(job(changed)["data"]["completion_field"], "output");
    EXPECT_FALSE(job(changed)["data"].contains("columns"));
    EXPECT_EQ(problems(changed), "");
    changed["dataset"] = "chats";
    EXPECT_EQ(problems(changed),
              "dataset names chats, whose lines are conversations; set `template` to the family of "
              "the model\n");
}

TEST_F(ForeignFile, ATemplateMakesConversationsOfEachForm) {
    Json changed = config();
    changed["stage"] = "sft";
    changed["template"] = "qwen";
    Json data = job(changed)["data"];
    EXPECT_EQ(problems(changed), "");
    EXPECT_EQ(data["columns"], Json::parse(R"({"prompt": "text", "response": "output"})"));
    EXPECT_FALSE(data.contains("prompt_field") || data.contains("tags"));
    EXPECT_EQ(foreign.remarks[0],
              "template qwen: conversations are rendered with the chat template of the model's own "
              "directory; `rollctl data preview` shows the texts");
    changed["dataset"] = "chats";
    data = job(changed)["data"];
    EXPECT_EQ(problems(changed), "");
    EXPECT_EQ(data["columns"], Json::parse(R"({"messages": "dialog", "system": "rules"})"));
    EXPECT_EQ(
        data["tags"],
        Json::parse(R"({"role": "who", "content": "what", "user": "me", "assistant": "it"})"));
    changed["dataset"] = "chats, wiki";
    EXPECT_EQ(problems(changed),
              "dataset names wiki, whose columns or tags differ from those of another data set; "
              "all data sets must have the same columns and tags\n");
    changed["dataset"] = "pictures";
    EXPECT_EQ(problems(changed),
              "dataset names pictures, which has the column images; Roll supports only texts\n");
}

TEST_F(ForeignFile, TheLastTurnAloneOrAllTokensAreLearned) {
    Json changed = config();
    changed["stage"] = "sft";
    changed["template"] = "qwen";
    EXPECT_FALSE(job(changed)["data"].contains("train_on"));
    changed["mask_history"] = true;
    EXPECT_EQ(job(changed)["data"]["train_on"], "last");
    changed["train_on_prompt"] = true;
    EXPECT_EQ(problems(changed),
              "mask_history cannot be used with train_on_prompt; remove one of these two keys\n");
    changed["mask_history"] = false;
    EXPECT_EQ(job(changed)["data"]["train_on"], "all");
}

TEST_F(ForeignFile, AMissingTypeOfFinetuningIsLoraThere) {
    Json changed = config();
    changed.erase("finetuning_type");
    EXPECT_EQ(problems(changed), "");
    EXPECT_EQ(job(changed)["train"]["lora"],
              Json::parse(R"({"r": 8, "alpha": 16, "targets": "all-linear"})"));
}

TEST_F(ForeignFile, TheLossIsAMeanOverStepsUnlessMegatronTrains) {
    Json changed = config();
    EXPECT_FALSE(job(changed)["train"].contains("normalize"));  // the default: step
    changed["sequence_parallel"] = true;
    EXPECT_EQ(job(changed)["train"]["normalize"], "microbatch");
    changed["calculate_per_token_loss"] = true;
    EXPECT_EQ(job(changed)["train"]["normalize"], "step");
}

TEST_F(ForeignFile, NullStandsForTheDefault) {
    Json changed = config();
    changed["learning_rate"] = nullptr;
    changed["fp16"] = nullptr;
    EXPECT_EQ(job(changed), job(config()));
}

TEST_F(ForeignFile, TrainsInOneOfTwoNarrowTypes) {
    Json changed = config();
    changed["fp16"] = true;
    EXPECT_EQ(job(changed)["train"]["precision"], "fp16");
    EXPECT_EQ(job(changed)["export"]["dtype"], "fp16");
    changed["bf16"] = true;
    EXPECT_NE(problems(changed).find("fp16 is true, and bf16 is also true; set only one of them"),
              std::string::npos)
        << problems(changed);
}

TEST_F(ForeignFile, DescribesEachKey) {
    Json changed = config();
    changed["bf16"] = true;
    changed["logging_steps"] = 10;
    const Json document = job(changed);
    const std::vector<std::string> lines = describe(foreign, document);
    const auto has = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    EXPECT_EQ(document["train"]["precision"], "bf16");
    EXPECT_TRUE(has("  bf16: train.precision \"bf16\", export.dtype \"bf16\""));
    EXPECT_TRUE(has("  learning_rate (default): train.optimizer.lr 5e-05"));
    EXPECT_TRUE(
        has("  no effect: logging_steps: metrics.jsonl has a line for each step; see "
            "`rollctl metrics --plot`"));
}

TEST(ForeignFiles, AreToldFromJobFiles) {
    EXPECT_TRUE(is_foreign(ForeignFile::config()));
    EXPECT_FALSE(is_foreign(Json::parse(R"({"kind": "train", "output_dir": "x",
                                            "learning_rate": 1, "cutoff_len": 5})")));
    EXPECT_FALSE(is_foreign(Json::parse(R"({"output_dir": "x"})")));
    EXPECT_FALSE(is_foreign(Json::array()));
}

}  // namespace
}  // namespace roll::cli
