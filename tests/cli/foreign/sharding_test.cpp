#include "common/files.hpp"
#include "tests/cli/foreign/foreign_file.hpp"

namespace roll::cli {
namespace {

class ForeignSharding : public ForeignFile {
  protected:
    // Returns parallel.zero of the configuration with one more key; 0 if it is not set.
    int zero(const char* key, const char* value) {
        Json changed = config();
        changed[key] = Json::parse(value);
        EXPECT_EQ(problems(changed), "") << key << " " << value;
        return job(changed).value(Json::json_pointer("/parallel/zero"), 0);
    }
    std::string refusal(const char* deepspeed) {
        Json changed = config();
        changed["deepspeed"] = Json::parse(deepspeed);
        return problems(changed);
    }
};

TEST_F(ForeignSharding, EachFormBecomesZero) {
    EXPECT_EQ(zero("use_distributed_optimizer", "true"), 1);
    EXPECT_EQ(zero("use_distributed_optimizer", "false"), 0);
    EXPECT_EQ(zero("deepspeed", R"({"zero_optimization": {"stage": 2}})"), 2);
    EXPECT_EQ(zero("deepspeed", R"({"bf16": {"enabled": "auto"}})"), 0);
    EXPECT_EQ(zero("fsdp", R"("full_shard auto_wrap")"), 3);
    EXPECT_EQ(zero("fsdp", R"(["shard_grad_op", "offload"])"), 2);
    EXPECT_EQ(zero("fsdp", R"("hybrid_shard")"), 3);
    EXPECT_EQ(zero("fsdp", R"("no_shard")"), 0);
    EXPECT_EQ(zero("fsdp", "true"), 3);
    EXPECT_EQ(zero("fsdp", R"("")"), 0);
    Json changed = config();
    changed["fsdp"] = true;
    changed["fsdp_config"] = {{"reshard_after_forward", false}};
    EXPECT_EQ(job(changed)["parallel"]["zero"], 2);
}

TEST_F(ForeignSharding, DeepSpeedsFileIsRead) {
    const std::string path = base + "/ds.json";
    ASSERT_TRUE(write_file_atomically(path, R"({"zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0, "bf16": {"enabled": false}})"));
    EXPECT_EQ(zero("deepspeed", R"("ds.json")"), 3);
    ASSERT_TRUE(write_file_atomically(path, "{"));
    EXPECT_TRUE(refusal(R"("ds.json")").starts_with("deepspeed " + path + " is not a JSON object"));
    EXPECT_NE(refusal(R"("nowhere.json")").find("nowhere.json"), std::string::npos);
}

TEST_F(ForeignSharding, SettingsOfDeepSpeedThatDifferAreRefused) {
    EXPECT_EQ(refusal(R"({"gradient_clipping": 0.5})"),
              "deepspeed has gradient_clipping 0.5, but max_grad_norm is 1; write \"auto\" for "
              "gradient_clipping\n");
    EXPECT_EQ(refusal(R"({"train_micro_batch_size_per_gpu": 4})"),
              "deepspeed has train_micro_batch_size_per_gpu 4, but per_device_train_batch_size is "
              "2; write \"auto\" for train_micro_batch_size_per_gpu\n");
    EXPECT_EQ(refusal(R"({"bf16": {"enabled": true}})"),
              "deepspeed enables bf16; set bf16: true in this file as well\n");
    Json trl = config();  // the default precision of TRL is bf16
    for (const char* const key : {"stage", "finetuning_type", "dataset"}) trl.erase(key);
    trl.update({{"dataset_name", "p.jsonl"}, {"beta", 0.3}});
    trl["deepspeed"] = {{"bf16", {{"enabled", true}}}};
    EXPECT_EQ(problems(trl), "");
    EXPECT_EQ(refusal(R"({"optimizer": {"type": "AdamW"}})"),
              "deepspeed has optimizer; remove optimizer and set optim in this file\n");
    EXPECT_EQ(refusal(R"({"zero_optimization": {"stage": 4}})"),
              "deepspeed has zero_optimization.stage 4; allowed: 0 to 3\n");
    Json changed = config();
    changed["fsdp"] = "full_shared";
    EXPECT_TRUE(problems(changed).starts_with("fsdp is \"full_shared\"; supported: full_shard, "));
    changed["fsdp"] = {"full_shard", 7};
    EXPECT_EQ(problems(changed),
              "fsdp is [\"full_shard\",7]; allowed: a text, or a list of texts\n");
    changed["fsdp"] = "full_shard";
    changed["fsdp_config"] = 7;
    EXPECT_EQ(problems(changed), "fsdp_config is 7; allowed: text\n");
}

TEST_F(ForeignSharding, TheOptionsOfFsdpMayBeInAFile) {
    std::ofstream(base + "/fsdp.json") << R"({"reshard_after_forward": false})";
    Json changed = config();
    changed["fsdp"] = true;
    changed["fsdp_config"] = "fsdp.json";
    EXPECT_EQ(job(changed)["parallel"]["zero"], 2);
    changed["fsdp_config"] = "missing.json";
    EXPECT_TRUE(problems(changed).starts_with("fsdp_config "));
}

TEST_F(ForeignSharding, AFractionOfTheStateOfTheOptimizerIsOffloaded) {
    const auto offload = [&](const char* keys) {
        const Json optimizer = job(config_with(keys))["train"]["optimizer"];
        return optimizer.value("offload", "none");
    };
    EXPECT_EQ(offload(R"({"optimizer_cpu_offload": true})"), "state");
    EXPECT_EQ(offload(R"({"optimizer_cpu_offload": true, "optimizer_offload_fraction": 1.0})"),
              "state");
    EXPECT_EQ(offload(R"({"optimizer_cpu_offload": true, "optimizer_offload_fraction": 0.0})"),
              "none");
    EXPECT_EQ(offload(R"({"optimizer_offload_fraction": 1.0})"), "none");
    const Json half =
        job(config_with(R"({"optimizer_cpu_offload": true, "optimizer_offload_fraction": 0.5})"));
    EXPECT_EQ(half["train"]["optimizer"]["offload"], "state");
    EXPECT_EQ(half["train"]["optimizer"]["offload_fraction"], 0.5);
}

}  // namespace
}  // namespace roll::cli
