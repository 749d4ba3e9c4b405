#include "common/spec/schema/schema.hpp"

#include <gtest/gtest.h>

namespace roll::spec {
namespace {

// Returns the problems of a train job with these additional keys, as lines of the form "path
// message".
std::string problems(const Json& more) {
    Json job = Json::parse(R"({
        "name": "x", "kind": "train", "model": {"from": "x"}, "data": {"train": ["a.txt"]},
        "train": {"seq_length": 8, "global_batch_size": 8, "micro_batch_size": 2, "steps": 10}
    })");
    job.merge_patch(more);
    std::string text;
    for (const Problem& problem : check(job_schema(), job))
        text += problem.path + " " + problem.message + "\n";
    return text;
}

TEST(UnknownKeys, ThatOtherProgramsHaveAreToldWithOurNames) {
    EXPECT_EQ(
        problems({{"gpus", 4}, {"cpus", 8}, {"train", {{"learning_rate", 1}, {"max_steps", 3}}}}),
        "train.learning_rate is an unknown key; did you mean train.optimizer.lr?\n"
        "train.max_steps is an unknown key; did you mean train.steps?\n"
        "cpus is an unknown key; did you mean resources.cpus?\n"
        "gpus is an unknown key; did you mean resources.gpus_per_node?\n");
    EXPECT_EQ(problems({{"train", {{"step", 3}}}}),
              "train.step is an unknown key; did you mean train.steps?\n")
        << "not the key `step` of another mapping";
    EXPECT_EQ(path_of_key(job_schema(), "lr"), "train.optimizer.lr");
    EXPECT_EQ(path_of_key(job_schema(), "flash_attn"), std::nullopt);
}

TEST(Files, OfAKindThatIsNotReadAreToldHowToConvert) {
    EXPECT_EQ(
        problems({{"data", {{"train", {"set/a.csv", "b.xml", "c.parquet"}}}}}),
        "data.train[0] is \"set/a.csv\", which Roll does not read; convert it with: "
        "python3 -c 'import pandas; pandas.read_csv(\"set/a.csv\").to_json("
        "\"set/a.jsonl\", orient=\"records\", lines=True, force_ascii=False)'\n"
        "data.train[1] is \"b.xml\"; allowed: a file .txt, .jsonl, .json, .parquet or .bin\n");
}

TEST(UnknownKeys, OfOneMappingHaveWhatIsAllowedOnce) {
    EXPECT_EQ(
        problems({{"parallel", {{"fsdp", 1}, {"sharding", 2}}}}),
        "parallel.fsdp is an unknown key; allowed: layout, dp, tp, sequence, pp, vpp, schedule, "
        "schedule_file, group, activation_limit, account_for_embedding, account_for_loss, "
        "first_layers, last_layers, pipeline_layout, stages, zero, recompute, recompute_method, "
        "recompute_layers, memory_limit, "
        "collective_timeout, cp, ep\n"
        "parallel.sharding is an unknown key\n");
}

TEST(UnknownKeys, ThatAreManyAreToldInTwoLines) {
    EXPECT_EQ(
        problems({{"cutoff_len", 1},
                  {"do_train", 1},
                  {"template", 1},
                  {"output_dir", 1},
                  {"flash_attn", 1}}),
        " it has keys that Roll names differently: cutoff_len -> train.seq_length, output_dir -> "
        "output\n"
        " it has unknown keys: do_train, flash_attn, template\n");
    Json many;
    for (int i = 100; i < 145; ++i) many["data"]["zzzzzzzz" + std::to_string(i)] = 1;
    EXPECT_TRUE(problems(many).ends_with(", zzzzzzzz139 and 5 more\n")) << problems(many);
}

TEST(Document, ThatIsNoMappingIsTold) {
    const std::vector<Problem> found = check(job_schema(), Json::array());
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].message, "it is []; allowed: a mapping");
}

TEST(NotBuilt, IsNotListedAsAllowed) {
    EXPECT_EQ(problems({{"objective", "grpo"},
                        {"parallel", {{"ep", "two"}}},
                        {"checkpoint", {{"format", 7}}}}),
              "checkpoint.format is 7; allowed: mca or torch_dist\n"
              "objective is \"grpo\"; allowed: pretrain, sft, distill, dpo, simpo, orpo, cpo, "
              "kto or reward, or a mapping; did you mean orpo?\n"
              "parallel.ep is \"two\"; allowed: 1\n");
    EXPECT_EQ(problems({{"train", {{"precision", "fp8"}}}}),
              "train.precision fp8 is not supported yet; supported: fp32, fp64, bf16, fp16\n");
}

// A wrong text of a key that also takes a number or a mapping.
TEST(OneOf, ListsTheValuesOfAllItsTypes) {
    EXPECT_EQ(problems({{"train", {{"micro_batch_size", "two"}}}, {"check", "none"}}),
              "check is \"none\"; allowed: builtin, or a mapping\n"
              "train.micro_batch_size is \"two\"; allowed: an integer, 1 to 1000000000, or auto\n");
    EXPECT_EQ(problems({{"retry", {{"app", -1}}}}),
              "retry.app is -1; allowed: an integer, 0 to 1000, or unlimited\n");
}

}  // namespace
}  // namespace roll::spec
