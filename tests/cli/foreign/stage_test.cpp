// Tests what decides about the objective in the files of LLaMA-Factory, TRL and ROLL's pipelines.
#include <algorithm>
#include <map>

#include "cli/foreign/table.hpp"
#include "tests/cli/foreign/foreign_file.hpp"

namespace roll::cli {
namespace {

TEST_F(ForeignFile, ThePreferencesOfLlamaFactoryAreAnObjective) {
    const auto objective = [&](const char* others) {
        return job(config_with(others))["objective"];
    };
    EXPECT_EQ(objective(kDpo), Json::parse(R"({"kind": "dpo", "loss": "sigmoid", "beta": 0.1})"));
    EXPECT_EQ(objective(R"({"stage": "dpo", "dataset": "pairs", "pref_loss": "simpo"})"),
              Json::parse(R"({"kind": "simpo", "gamma": 0.5, "beta": 0.1})"));
    EXPECT_EQ(objective(R"({"stage": "dpo", "dataset": "pairs", "pref_loss": "orpo"})"),
              Json::parse(R"({"kind": "orpo", "beta": 0.1, "nll_weight": 1.0})"));
    EXPECT_EQ(objective(R"({"stage": "kto", "dataset": "labelled", "kto_chosen_weight": 2})"),
              Json::parse(R"({"kind": "kto", "beta": 0.1, "desirable_weight": 2})"));
    EXPECT_EQ(objective(R"({"stage": "sft", "dataset": "books", "neftune_noise_alpha": 5})"),
              Json::parse(R"({"kind": "sft", "neftune_alpha": 5})"));
    EXPECT_EQ(objective(R"({"stage": "rm", "dataset": "pairs"})"),
              Json::parse(R"({"kind": "reward"})"));
    EXPECT_EQ(objective(kTrlDpo), Json::parse(R"({"kind": "dpo", "beta": 0.3})"));
    const Json kto = job(config_with(kKto));
    EXPECT_EQ(kto["data"]["label_field"], "good");
    EXPECT_EQ(kto["train"]["optimizer"]["lr"], 5e-5);
    const Json job_of_trl = job(config_with(kTrlLora));
    EXPECT_EQ(job_of_trl["train"]["optimizer"]["lr"], 1e-6);
    EXPECT_EQ(job_of_trl["train"]["seq_length"], 1024);
    EXPECT_EQ(job_of_trl["train"]["precision"], "bf16");
    EXPECT_EQ(job_of_trl["train"]["lora"],
              Json::parse(R"({"r": 16, "alpha": 32, "targets": ["q_proj", "v_proj"]})"));
}

TEST_F(ForeignFile, ADataSetOfTheHubIsRefusedWithItsDownload) {
    Json trl = config();
    for (const char* const key : {"stage", "finetuning_type", "dataset"}) trl.erase(key);
    trl["dataset_name"] = "Ann/talk";
    const std::string told = problems(trl);
    EXPECT_NE(told.find("is \"Ann/talk\", which is not in HuggingFace's cache "), std::string::npos)
        << told;
    EXPECT_NE(told.find("; run: hf download --repo-type dataset Ann/talk"), std::string::npos)
        << told;
    trl["dataset_name"] = "talk.csv";
    EXPECT_NE(problems(trl).find("Roll does not read the file talk.csv; "), std::string::npos);
    EXPECT_EQ(problems(trl).find("hf download"), std::string::npos);
}

TEST_F(ForeignFile, TrlsTruncationAndPackingAreKeysOfTheData) {
    const auto of_trl = [](const char* others) {
        Json with = config_with(kTrlSft);
        with.update(Json::parse(others));
        return with;
    };
    const auto data = [&](const char* others) {
        EXPECT_EQ(problems(of_trl(others)), "") << others;
        return job(of_trl(others))["data"];
    };
    const Json kept = data(kTrlDpo);
    EXPECT_FALSE(kept.contains("truncate"));
    EXPECT_EQ(data(R"({"beta": 0.3, "truncation_mode": "keep_end"})")["truncate"], "start");
    EXPECT_EQ(data(R"({"center_rewards_coefficient": 0.1})")["truncate"], "drop");
    const auto packed = [&](const char* strategy) {
        return data((R"({"loss_type": "nll", "packing": true, "packing_strategy": ")" +
                     std::string(strategy) + R"("})")
                        .c_str());
    };
    EXPECT_EQ(packed("bfd")["packing"], "best_fit");
    EXPECT_EQ(packed("bfd")["texts"], true);
    EXPECT_EQ(data(R"({"dataset_text_field": "story"})")["field"], "story");
    EXPECT_EQ(packed("bfd_split")["truncate"], "split");
    EXPECT_EQ(packed("wrapped")["packing"], "wrapped");
    EXPECT_EQ(packed("wrapped")["attention"], "across_documents");
    const Json wrong = of_trl(R"({"loss_type": "nll", "truncation_mode": "middle"})");
    EXPECT_NE(problems(wrong).find("is middle; supported: keep_start, keep_end"), std::string::npos)
        << problems(wrong);
}

TEST_F(ForeignFile, BitsandbytesBecomesTheFormOfTheFrozenWeights) {
    const auto lora = [&](const char* others) {
        Json with = config_with(others);
        EXPECT_EQ(problems(with), "") << others;
        return job(with)["train"]["lora"];
    };
    const Json nf4 = lora(R"({"finetuning_type": "lora", "quantization_bit": 4})");
    EXPECT_EQ(nf4["base"], "nf4");
    EXPECT_EQ(nf4["double_quantization"], true);
    EXPECT_EQ(lora(R"({"finetuning_type": "lora", "quantization_bit": 8,
                       "quantization_method": "bnb"})")["base"],
              "int8");
    Json trl = Json::parse(kTrlLora);
    trl["load_in_4bit"] = true;
    const Json of_trl = lora(trl.dump().c_str());
    EXPECT_EQ(of_trl["base"], "nf4");
    EXPECT_FALSE(of_trl.contains("double_quantization"));
    for (const auto& [others, told] : std::map<std::string, const char*>{
             {R"({"finetuning_type": "lora", "quantization_bit": 3})", "is 3; supported: 4, 8"},
             {R"({"finetuning_type": "full", "quantization_bit": 4})",
              "needs finetuning_type lora"},
             {R"({"finetuning_type": "lora", "quantization_bit": 4, "quantization_type": "fp4"})",
              "is fp4; supported: nf4"},
             {R"({"finetuning_type": "lora", "quantization_bit": 4, "quantization_method": "hqq"})",
              "is hqq; supported: bnb"}}) {
        const Json wrong = config_with(others);
        EXPECT_NE(problems(wrong).find(told), std::string::npos) << problems(wrong);
    }
}

TEST_F(ForeignFile, DataOfAnotherStageAreRefused) {
    const auto told = [&](const char* others) { return problems(config_with(others)); };
    EXPECT_EQ(told(R"({"stage": "sft", "dataset": "pairs"})"),
              "dataset names pairs, whose lines are pairs of answers; set stage: dpo or rm\n");
    EXPECT_EQ(told(R"({"stage": "sft", "dataset": "labelled"})"),
              "dataset names labelled, whose lines are labelled answers; set stage: kto\n");
    EXPECT_EQ(told(R"({"stage": "dpo", "dataset": "books"})"),
              "dataset names books, whose lines are not pairs of answers; name a data set with "
              "ranking: true\n");
    EXPECT_EQ(told(R"({"stage": "kto", "dataset": "books"})"),
              "dataset names books, whose lines have no labels; name a data set with the column "
              "kto_tag\n");
    EXPECT_EQ(told(R"({"stage": "kto", "dataset": "labelled", "neftune_noise_alpha": 5})"),
              "neftune_noise_alpha is 5; Roll does not support this key with objective kto; remove "
              "it\n");
    EXPECT_EQ(told(R"({"stage": "dpo", "dataset": "pairs", "pref_loss": "kto_pair"})"),
              "pref_loss is kto_pair; supported: sigmoid, hinge, ipo, orpo, simpo\n");
}

TEST_F(ForeignFile, TellsHowToAddRowsAndWhereToSetFieldsOfTheModel) {
    Json with = config();
    with["resize_vocab"] = true;
    EXPECT_EQ(problems(with), "");
    const std::string told =
        "resize_vocab: if the tokenizer has more tokens than the embedding has rows, the job ends "
        "before training; its message gives the value of model.vocab_size with which Roll adds "
        "rows";
    EXPECT_EQ(std::ranges::count(foreign.no_effect, told), 1);
    with["additional_configs"] = {{"moe_grouped_gemm", true}};
    EXPECT_EQ(problems(with),
              "additional_configs is {\"moe_grouped_gemm\":true}: these are fields of Megatron's "
              "config; remove those that choose a kernel, because Roll has its own, and set those "
              "that describe the model in its config.json\n");
}

// The file of ROLL's SFT pipeline, or that of its DPO pipeline.
Json pipeline(bool sft) {
    Json worker = Json::parse(R"({"model_args": {"dtype": "bf16", "flash_attn": "sdpa"},
        "training_args": {"learning_rate": 1e-5, "per_device_train_batch_size": 2,
                          "gradient_accumulation_steps": 4, "num_train_epochs": 1},
        "data_args": {"file_name": "data.jsonl", "template": "qwen3",
                      "preprocessing_num_workers": 1},
        "strategy_args": {"strategy_name": "megatron_train",
            "strategy_config": {"tensor_model_parallel_size": 2, "sequence_parallel": true,
                                "recompute_granularity": "full"}},
        "device_mapping": "0 to 7", "infer_batch_size": 1})");
    Json file = Json::parse(R"({"hydra": {"run": {"dir": "."}}, "exp_name": "night", "seed": 7,
        "output_dir": "out", "pretrain": "model", "save_steps": 20, "sequence_length": 128,
        "system_envs": {"A": "1"}, "validation": {"data_args": {"file_name": "v.jsonl"}}})");
    if (sft) file.update(Json::parse(R"({"prompt_key": "question", "response_key": "answer"})"));
    if (!sft)
        file.update(Json::parse(
            R"({"beta": 0.2, "ipo": false, "chosen_key": "chosen", "train_batch_size": 64,
                "reference": {"model_args": {"dtype": "bf16"}}})"));
    file[sft ? "sft_train" : "actor_train"] = worker;
    return file;
}

TEST_F(ForeignFile, ThePipelinesOfRollAreJobFiles) {
    EXPECT_TRUE(is_foreign(pipeline(true)));
    const Json sft = job(pipeline(true));
    EXPECT_EQ(foreign.problems.size(), 0);
    EXPECT_EQ(sft["objective"], "sft");
    EXPECT_EQ(sft["name"], "night");
    EXPECT_EQ(sft["model"]["from"], base + "/model");
    EXPECT_EQ(sft["data"]["train"], Json{base + "/data.jsonl"});
    EXPECT_EQ(sft["data"]["valid"], Json::parse(R"({"eval": [")" + base + R"(/v.jsonl"]})"));
    EXPECT_EQ(sft["data"]["columns"],
              Json::parse(R"({"prompt": "question", "response": "answer"})"));
    EXPECT_EQ(sft["parallel"], Json::parse(R"({"tp": 2, "sequence": true, "recompute": "full"})"));
    EXPECT_EQ(sft["train"]["precision"], "bf16");
    EXPECT_EQ(sft["train"]["micro_batch_size"], 2);
    EXPECT_EQ(sft["train"]["global_batch_size"], 8);
    EXPECT_EQ(sft["train"]["seq_length"], 128);
    EXPECT_FALSE(sft["train"].contains("lora"));
    const Json dpo = job(pipeline(false));
    EXPECT_EQ(foreign.problems.size(), 0);
    EXPECT_EQ(dpo["objective"], Json::parse(R"({"kind": "dpo", "loss": "sigmoid", "beta": 0.2})"));
}

TEST_F(ForeignFile, EachHonouredKeyOfAPipelineChangesTheJob) {
    const std::map<std::string, const char*> values{
        {"pretrain", R"("other")"},
        {"exp_name", R"("day")"},
        {"seed", "8"},
        {"output_dir", R"("away")"},
        {"max_steps", "5"},
        {"save_steps", "30"},
        {"eval_steps", "10"},
        {"sequence_length", "64"},
        {"beta", "0.3"},
        {"label_smoothing", "0.1"},
        {"prompt_key", R"("q")"},
        {"query_key", R"("i")"},
        {"response_key", R"("r")"},
        {"system_key", R"("s")"},
        {"validation.data_args.file_name", R"("w.jsonl")"},
        {"WORKER.model_args.dtype", R"("fp32")"},
        {"WORKER.model_args.lora_rank", "4"},
        {"WORKER.model_args.ulysses_size", "2"},
        {"WORKER.strategy_args.strategy_config.ep_size", "2"},
        {"WORKER.data_args.file_name", R"(["a.jsonl", "b.jsonl"])"}};
    for (const auto& [key, entry] : pipeline_table()["keys"].items()) {
        if (!entry.contains("to") && !entry.contains("column")) continue;
        // These keys have no effect, or change only the remarks.
        if (key == "resume_from_checkpoint" || key == "logging_steps" || key == "global_template")
            continue;
        ASSERT_TRUE(values.contains(key)) << key;
        const bool sft = key != "beta" && key != "label_smoothing";
        Json changed = pipeline(sft);
        std::string path = "/" + key;
        std::ranges::replace(path, '.', '/');
        if (path.starts_with("/WORKER"))
            path = (sft ? "/sft_train" : "/actor_train") + path.substr(7);
        changed[Json::json_pointer(path)] = Json::parse(values.at(key));
        EXPECT_NE(whole_job(changed), whole_job(pipeline(sft))) << key;
        EXPECT_EQ(problems(changed), "") << key;
    }
    Json wrong = pipeline(false);
    wrong["ipo"] = true;
    wrong["pretrain"] = "${oc.env:MODEL}";
    wrong["actor_train"]["training_args"]["optim"] = "galore_adamw";
    wrong["actor_train"]["sleeps"] = 1;
    const std::string told = problems(wrong);
    for (const char* const part :
         {"ipo is true: it compares sums", "pretrain is \"${oc.env:MODEL}\"; write the value",
          "actor_train.sleeps is not a key of ROLL's",
          "optim is galore_adamw; supported: adamw_torch"})
        EXPECT_NE(told.find(part), std::string::npos) << told;
}

TEST_F(ForeignFile, StrategiesOfPipelinesBecomeZero) {
    const auto zero = [&](const char* strategy) {
        Json changed = pipeline(true);
        changed["sft_train"]["strategy_args"] = Json::parse(strategy);
        EXPECT_EQ(problems(changed), "") << strategy;
        return job(changed).value(Json::json_pointer("/parallel/zero"), 0);
    };
    EXPECT_EQ(zero(R"({"strategy_name": "megatron_train", "strategy_config": {}})"), 0);
    EXPECT_EQ(zero(R"({"strategy_name": "megatron_train",
                       "strategy_config": {"use_distributed_optimizer": true}})"),
              1);
    EXPECT_EQ(zero(R"({"strategy_name": "fsdp2_train", "strategy_config": {"fsdp_size": 4}})"), 3);
    EXPECT_EQ(zero(R"({"strategy_name": "fsdp2_train",
                       "strategy_config": {"reshard_after_forward": false}})"),
              2);
    EXPECT_EQ(zero(R"({"strategy_name": "deepspeed_train",
                       "strategy_config": "${deepspeed_zero3_cpuoffload}"})"),
              3);
    EXPECT_EQ(zero(R"({"strategy_name": "deepspeed_train", "strategy_config":
                       {"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}})"),
              2);
    Json changed = pipeline(true);
    changed["sft_train"]["strategy_args"] = {{"strategy_name", "deepspeed_train"},
                                             {"strategy_config", "${mine}"}};
    EXPECT_NE(problems(changed).find("strategy_config is \"${mine}\"; write the value itself"),
              std::string::npos)
        << problems(changed);
}

// Keys of the layout, such as ulysses_size and ep_size, do not make a strategy Megatron's.
TEST_F(ForeignFile, OnlyTheStrategyOfAPipelineChoosesMegatronsMean) {
    const auto normalize = [&](const char* strategy, const char* sizes) {
        Json changed = pipeline(true);
        Json& worker = changed["sft_train"];
        worker["strategy_args"] = {{"strategy_name", strategy},
                                   {"strategy_config", Json::object()}};
        worker["model_args"].update(Json::parse(sizes));
        worker["training_args"]["lr_scheduler_type"] = "warmup_stable_decay";
        const Json whole = whole_job(changed);
        EXPECT_EQ(whole["train"]["optimizer"]["wsd_decay"],
                  whole["train"]["normalize"] == "step" ? "linear" : "exponential");
        return whole["train"]["normalize"];
    };
    for (const char* const strategy : {"fsdp2_train", "deepspeed_train"})
        for (const char* const sizes : {"{}", R"({"ulysses_size": 2})"})
            EXPECT_EQ(normalize(strategy, sizes), "step") << strategy << ' ' << sizes;
    EXPECT_EQ(normalize("megatron_train", "{}"), "microbatch");
}

TEST_F(ForeignFile, TellsThatRollDoesNotDivideHeadsAsUlyssesDoes) {
    Json changed = pipeline(true);
    const auto notes = [&](int size) {
        changed["sft_train"]["model_args"]["ulysses_size"] = size;
        job(changed);
        return std::ranges::count(
            foreign.remarks,
            "sft_train.model_args.ulysses_size: in Ulysses, the ranks divide the attention heads; "
            "in Roll, each rank gathers the keys and values of all heads (parallel.cp)");
    };
    EXPECT_EQ(notes(2), 1);
    EXPECT_EQ(notes(1), 0);
}

}  // namespace
}  // namespace roll::cli
