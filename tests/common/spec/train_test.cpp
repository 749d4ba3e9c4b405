#include "common/spec/train/train.hpp"

#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/spec/check/sizes.hpp"
#include "common/spec/check/train_rules.hpp"

namespace roll::spec {
namespace {

Json smallest() {
    return Json::parse(R"({
        "kind": "train", "name": "t",
        "resources": {"nodes": 2, "slots_per_node": 3},
        "model": {"family": "llama", "hidden_size": 64},
        "data": {"train": ["/a.txt"]},
        "train": {"seq_length": 8, "global_batch_size": 12, "micro_batch_size": 1, "steps": 5}
    })");
}

TEST(TrainSpec, DerivesDataParallelRanksFromTheResources) {
    const auto spec = train_spec(smallest().dump());
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->parallel.dp, 6);
    EXPECT_EQ(spec->microbatches(), 2);
    EXPECT_EQ(spec->export_format, ExportFormat::Hf);
    EXPECT_EQ(spec->model.family, "llama");
    EXPECT_EQ(spec->model.hf_config, R"({"hidden_size":64})");
}

TEST(TrainSpec, ARankMayHaveSeveralSlots) {
    Json json = smallest();
    json["resources"] = {{"nodes", 2}, {"slots_per_node", 4}, {"slots_per_rank", 2}};
    EXPECT_EQ(train_spec(json.dump())->parallel.dp, 4);
    EXPECT_TRUE(impossible_sizes(json).empty());
    json["parallel"] = {{"dp", 2}};
    const auto problems = impossible_sizes(json);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems[0].message,
              "dp 2 x tp 1 x pp 1 x cp 1 = 2 ranks, but resources give 2 nodes x 4 slots / 2 slots "
              "per rank = 4 ranks; set dp to 4 or resources.slots_per_node to 2");
    json["resources"]["slots_per_rank"] = 3;
    const auto uneven = train_spec(json.dump());
    ASSERT_FALSE(uneven);
    EXPECT_EQ(uneven.error().message,
              "resources.slots_per_rank is 3; allowed: a divisor of slots_per_node 4");
}

// Returns the problems of the smallest job with other values, which are JSON.
std::string problems_with(const char* values) {
    Json json = smallest();
    json.update(Json::parse(values), true);
    std::string all;
    for (const Problem& one : impossible_sizes(json)) all += one.path + " " + one.message + "\n";
    return all;
}

TEST(TrainSpec, EachProblemOfALayoutIsToldWithWhatWorks) {
    EXPECT_EQ(
        problems_with(R"({"parallel": {"dp": 4, "tp": 3},
                                "model": {"num_attention_heads": 4},
                                "train": {"global_batch_size": 10}})"),
        "parallel dp 4 x tp 3 x pp 1 x cp 1 = 12 ranks, but resources give 2 nodes x 3 slots "
        "= 6 ranks; set dp to 2 or resources.slots_per_node to 6\n"
        "train.global_batch_size is 10; allowed: a multiple of micro_batch_size 1 x dp 4 = 4, "
        "such as 8 or 12\n"
        "parallel.tp is 3, which does not divide model.num_attention_heads 4; allowed with "
        "this model: 1, 2, 4\n");
    EXPECT_EQ(problems_with(R"({"parallel": {"dp": 1, "tp": 5}})"),
              "parallel dp 1 x tp 5 x pp 1 x cp 1 = 5 ranks, but resources give 2 nodes x 3 slots "
              "= 6 ranks\n");
    EXPECT_EQ(problems_with(R"({"parallel": {"tp": 4}})"),
              "parallel tp 4 x pp 1 x cp 1 = 4 does not divide the number of ranks; resources give "
              "2 nodes x "
              "3 slots = 6 ranks; set resources.slots_per_node to 4\n");
    // No number of slots that the schema allows has so many ranks.
    EXPECT_EQ(problems_with(
                  R"({"parallel": {"dp": 4096, "tp": 4}, "train": {"global_batch_size": 4096}})"),
              "parallel dp 4096 x tp 4 x pp 1 x cp 1 = 16384 ranks, but resources give 2 nodes x 3 "
              "slots = 6 ranks\n");
    EXPECT_EQ(problems_with(
                  R"({"parallel": {"dp": 2048, "tp": 4}, "train": {"global_batch_size": 4096}})"),
              "parallel dp 2048 x tp 4 x pp 1 x cp 1 = 8192 ranks, but resources give 2 nodes x 3 "
              "slots = 6 ranks; set resources.slots_per_node to 4096\n");
    EXPECT_EQ(
        problems_with(R"({"parallel": {"tp": 128}, "resources": {"gpus_per_node": 8}})"),
        "parallel tp 128 x pp 1 x cp 1 = 128 does not divide the number of ranks; resources give 2 "
        "nodes x 8 GPUs = 16 ranks; set resources.gpus_per_node to 64\n");
    EXPECT_EQ(
        problems_with(R"({"parallel": {"tp": 256}, "resources": {"gpus_per_node": 8}})"),
        "parallel tp 256 x pp 1 x cp 1 = 256 does not divide the number of ranks; resources give 2 "
        "nodes x 8 GPUs = 16 ranks\n");
    // The product is 2^64.
    EXPECT_EQ(problems_with(R"({"parallel": {"tp": 536870912, "pp": 536870912, "cp": 64}})")
                  .find("parallel tp 536870912 x pp 536870912 x cp 64 = 1000000000000000000 does"),
              0U);
}

TEST(TrainSpec, MicrobatchesThatDoNotFitAreToldBesideLayersThatDoNot) {
    EXPECT_EQ(problems_with(R"({"model": {"num_hidden_layers": 2},
                                "parallel": {"pp": 2, "vpp": 2, "group": 3}})"),
              "parallel.vpp is 2, so the schedule takes micro-batches in groups of 3. With 4 "
              "micro-batches for each replica (global_batch_size / micro_batch_size / dp), the "
              "last group has fewer micro-batches than pp 2; the nearest valid numbers of "
              "micro-batches are 3 (global_batch_size 9) or 5 (global_batch_size 15); with 4 "
              "micro-batches, parallel.group 2 is valid; or set vpp to 1\n"
              "parallel.pp is 2, vpp 2, which does not divide the 2 layers of the model "
              "(num_hidden_layers); the nearest valid settings: pp 2 with vpp 1\n");
}

TEST(TrainSpec, ATransferHasATimeOfASecondOrMore) {
    Json json = smallest();
    EXPECT_EQ(train_spec(json.dump())->parallel.collective_timeout, std::chrono::minutes(10));
    json["parallel"]["collective_timeout"] = "2m";
    EXPECT_EQ(train_spec(json.dump())->parallel.collective_timeout, std::chrono::minutes(2));
    json["parallel"]["collective_timeout"] = "0s";
    const auto none = train_spec(json.dump());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "parallel.collective_timeout is 0s; give 1s or more");
}

TEST(TrainSpec, ReadsWhatBackwardComputesAgain) {
    Json json = smallest();
    EXPECT_EQ(train_spec(json.dump())->parallel.recompute, Recompute::None);
    json["parallel"] = {
        {"recompute", "full"}, {"recompute_method", "block"}, {"memory_limit", "1MiB"}};
    json["parallel"]["recompute_layers"] = 3;
    const ParallelSpec parallel = train_spec(json.dump())->parallel;
    EXPECT_EQ(parallel.recompute, Recompute::Full);
    EXPECT_EQ(parallel.recompute_method, RecomputeMethod::Block);
    EXPECT_EQ(parallel.recompute_layers, 3);
    EXPECT_EQ(parallel.memory_limit, 1 << 20);
    EXPECT_EQ(impossible_sizes(json).size(), 0U);
}

TEST(TrainSpec, KeysOfRecomputationThatDoNotFitItsKindAreRefused) {
    const std::pair<Json, const char*> cases[] = {
        {{{"recompute_layers", 2}},
         "parallel.recompute_layers is 2, but parallel.recompute is \"none\"; allowed: only with "
         "recompute `full`"},
        {{{"recompute", "mlp"}, {"recompute_method", "block"}},
         "parallel.recompute_method is \"block\", but parallel.recompute is \"mlp\"; allowed: "
         "only with recompute `full`"},
        {{{"recompute", "full"}, {"recompute_method", "block"}},
         "parallel.recompute_layers is missing; with recompute_method `block`, set it to the "
         "number of layers that are recomputed in each chunk"},
        {{{"recompute", "auto"}},
         "parallel.memory_limit is 0; with recompute `auto`, set it to the memory that a rank may "
         "use, such as 3GiB"}};
    for (const auto& [parallel, message] : cases) {
        Json json = smallest();
        json["parallel"] = parallel;
        const std::vector<Problem> problems = impossible_sizes(json);
        ASSERT_EQ(problems.size(), 1U);
        EXPECT_EQ(problems[0].path + " " + problems[0].message, message);
    }
}

TEST(TrainSpec, ReadsEverySection) {
    Json json = smallest();
    json["kind"] = "resume";
    json["export"] = "none";
    json["checkpoint"] = {{"every", 100}, {"keep", 3}, {"buffer_mib", 7}, {"format", "mca"}};
    json["data"]["valid"] = 0.2;
    json["train"]["optimizer"] = {{"lr", 3e-3}, {"schedule", "constant"}, {"beta2", 0.99}};
    json["train"]["sample"] = {{"every", 10}, {"prompts", {"In the"}}};
    json["train"]["precision"] = "fp64";
    json["train"]["normalize"] = "microbatch";
    const auto spec = train_spec(json.dump());
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->export_format, ExportFormat::None);
    EXPECT_EQ(spec->checkpoint_every, 100);
    EXPECT_EQ(spec->checkpoint_keep, 3);
    EXPECT_EQ(spec->checkpoint_buffer_mib, 7);
    EXPECT_EQ(spec->data.valid_fraction, 0.2);
    EXPECT_EQ(spec->optimizer.lr, 3e-3);
    EXPECT_EQ(spec->optimizer.schedule, LrSchedule::Constant);
    EXPECT_EQ(spec->sample.prompts, std::vector<std::string>{"In the"});
    EXPECT_EQ(spec->precision, Precision::Fp64);
    EXPECT_EQ(spec->normalize, Normalize::Microbatch);
}

TEST(TrainSpec, LearnsCompletionsOfLines) {
    Json json = smallest();
    json["objective"] = "sft";
    json["data"] = {{"train", {"/a.jsonl"}}, {"prompt_field", "q"}, {"valid", {{"b", "/b.txt"}}}};
    EXPECT_EQ(train_spec(json.dump()).error().message,
              "objective sft needs .jsonl, .json or .parquet files with the fields q and "
              "completion, or with conversations, but /b.txt is a file of another type");
    json["data"].erase("valid");
    const auto spec = train_spec(json.dump());
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->objective, Objective::Sft);
    EXPECT_TRUE(spec->data.completions);
    EXPECT_TRUE(spec->data.documents_apart);
    EXPECT_EQ(spec->data.prompt_field, "q");
    EXPECT_FALSE(train_spec(smallest().dump())->data.completions);
}

TEST(TrainSpec, TheWarmUpIsAShareOfTheSteps) {
    Json json = smallest();
    json["train"]["optimizer"] = {{"warmup_ratio", 0.3}};
    EXPECT_EQ(train_spec(json.dump())->optimizer.warmup_steps, 2);
    json["train"].erase("steps");
    json["train"]["epochs"] = 2.5;
    auto spec = train_spec(json.dump());
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(std::tuple(spec->epochs, spec->steps, spec->optimizer.warmup_steps),
              std::tuple(2.5, 0, 0));
    set_steps(*spec, 20);
    EXPECT_EQ(std::tuple(spec->steps, spec->optimizer.warmup_steps), std::tuple(20, 6));
}

TEST(TrainSpec, ATrainingHasOneLength) {
    const auto problem = [](const Json& train) {
        Json json = smallest();
        json["train"].merge_patch(train);
        const std::vector<Problem> problems = impossible_sizes(json);
        return problems.size() == 1 ? problems[0].path + " " + problems[0].message : "";
    };
    EXPECT_EQ(problem({{"epochs", 2.5}}),
              "train.epochs is 2.5, but train.steps is 5; set only one of the two");
    EXPECT_EQ(problem({{"steps", nullptr}}),
              "train.steps is missing; allowed: an integer, 1 to 1000000000, or train.epochs");
    EXPECT_EQ(problem({{"optimizer", {{"warmup_steps", 3}, {"warmup_ratio", 0.5}}}}),
              "train.optimizer.warmup_ratio is 0.5; allowed: 0 with warmup_steps 3");
    EXPECT_EQ(impossible_sizes(smallest()).size(), 0);
}

TEST(TrainSpec, BlendsAndOrdersFitTheFiles) {
    const auto problem = [](const Json& data, const Json& train = Json::object()) {
        Json json = smallest();
        json["data"] = {{"train", {"/a.bin", "/b.bin"}}};
        json["data"].merge_patch(data);
        json["train"].merge_patch(train);
        const std::vector<Problem> problems = impossible_sizes(json);
        return problems.size() == 1 ? problems[0].path + " " + problems[0].message : "";
    };
    const auto phases = [](int first, int second) {
        return Json{
            {"curriculum",
             {{{"step", first}, {"weights", {1, 0}}}, {{"step", second}, {"weights", {1, 1}}}}}};
    };
    EXPECT_EQ(problem({{"weights", {1}}}),
              "data.weights has 1 weight; allowed: 2, one for each file of data.train");
    EXPECT_EQ(problem({{"weights", {0, 0}}}),
              "data.weights has no weight above 0; allowed: at least one");
    EXPECT_EQ(problem(phases(1, 2)),
              "data.curriculum[0].step is 1; allowed: 0, because training "
              "begins with the first phase");
    EXPECT_EQ(problem(phases(0, 0)), "data.curriculum[1].step is 0; allowed: more than 0");
    EXPECT_EQ(problem({{"weights", {1, 2}}}, {{"epochs", 2}, {"steps", nullptr}}),
              "train.epochs is 2, but with data.weights training makes no whole passes over the "
              "files; use train.steps instead");
    EXPECT_EQ(problem({{"split", {9, 1, 0}}}),
              "data.split is only for data.order megatron; remove split, or set order to megatron");
    EXPECT_EQ(problem({{"packing", "best_fit"}}),
              "data.packing is best_fit; allowed: `in_order` with objective \"pretrain\"");
    EXPECT_EQ(problem({{"truncate", "start"}}),
              "data.truncate is start; allowed: `end` with objective \"pretrain\", because this "
              "objective truncates no document");
    EXPECT_EQ(problem({{"order", "megatron"}, {"split", {0, 1, 0}}}),
              "data.split gives training the share 0; allowed: more than 0");
    EXPECT_EQ(problem({{"order", "megatron"}}, {{"seed", 4294967296}}),
              "train.seed is 4294967296; allowed with data.order megatron: at most 4294967295");
    Json json = smallest();
    json["data"] = {{"train", {"/a.bin", "/b.bin"}}, {"order", "megatron"}, {"split", {8, 1, 1}}};
    json["data"].merge_patch(phases(0, 7));
    EXPECT_EQ(impossible_sizes(json).size(), 1);  // the curriculum
    json["data"].erase("order");
    json["data"].erase("split");
    EXPECT_EQ(impossible_sizes(json).size(), 0);
    const DataSpec data = train_spec(json.dump()).value().data;
    ASSERT_EQ(data.phases.size(), 2);
    EXPECT_EQ(std::tuple(data.phases[1].step, data.phases[1].weights),
              std::tuple(7, std::vector<double>{1, 1}));
}

TEST(TrainSpec, TruncationFitsTheRows) {
    const auto problem = [](const Json& objective, const Json& data) {
        Json json = smallest();
        json["objective"] = objective;
        json["data"].merge_patch(data);
        const std::vector<Problem> problems = blend_problems(json);
        return problems.empty() ? "" : problems[0].path + " " + problems[0].message;
    };
    EXPECT_EQ(problem("sft", {{"packing", "wrapped"}}), "");
    EXPECT_EQ(problem("sft", {{"packing", "best_fit"}, {"truncate", "split"}}), "");
    EXPECT_EQ(
        problem("sft", {{"packing", "wrapped"}, {"truncate", "drop"}}),
        "data.truncate is drop; allowed: `end` with data.packing wrapped, because this packing "
        "truncates no document");
    EXPECT_EQ(problem("sft", {{"train_on", "all"}, {"truncate", "prompt"}}),
              "data.truncate is prompt; allowed: a value other than `prompt` with data.train_on "
              "all, because "
              "documents then have no prompts");
    EXPECT_EQ(problem("orpo", {{"truncate", "drop"}}), "");
    EXPECT_EQ(problem("orpo", {{"truncate", "split"}}),
              "data.truncate is split; allowed: `end`, `start`, `prompt`, `drop` or `error` with "
              "objective \"orpo\"");
    EXPECT_EQ(problem("orpo", {{"packing", "wrapped"}}),
              "data.packing is wrapped; allowed: `in_order` with objective \"orpo\"");
}

TEST(TrainSpec, WhatIsLearnedBelongsToSft) {
    Json json = smallest();
    json["data"] = {{"train", {"/a.jsonl"}},
                    {"train_on", "last"},
                    {"columns", {{"messages", "m"}}},
                    {"tags", {{"user", "u"}}}};
    EXPECT_EQ(train_spec(json.dump())->data.columns.at("messages"), "m");
    EXPECT_EQ(train_spec(json.dump())->data.tags.at("user"), "u");
    EXPECT_EQ(train_spec(json.dump())->data.train_on, TrainOn::Last);
    ASSERT_EQ(impossible_sizes(json).size(), 1);
    EXPECT_EQ(impossible_sizes(json)[0].message,
              "is \"last\"; allowed with objective \"pretrain\": only `assistant`, because this "
              "objective trains on all tokens");
    json["objective"] = "sft";
    EXPECT_EQ(impossible_sizes(json).size(), 0);
}

std::string problems_of(const Json& objective) {
    std::string text;
    const Json document = {{"objective", objective}, {"train", Json::object()}};
    for (const Problem& problem : preference_problems(document))
        text += problem.path + " " + problem.message + "\n";
    return text;
}

TEST(TrainSpec, ReadsAnObjectiveAsANameOrAsAMapping) {
    Json json = smallest();
    json["data"]["train"] = {"/pairs.jsonl"};
    json["model"]["from"] = "/start";
    json["objective"] = "dpo";
    EXPECT_EQ(train_spec(json.dump())->preference, PreferenceSpec{});
    EXPECT_TRUE(train_spec(json.dump())->data.pairs);
    EXPECT_EQ(train_spec(json.dump())->sequences_per_sample(), 2);
    json["objective"] = {{"kind", "simpo"}, {"gamma", 0.5}};
    const auto simpo = train_spec(json.dump())->preference;
    EXPECT_EQ(simpo.kind, PreferenceKind::SimPo);
    EXPECT_EQ(simpo.beta, 2);
    EXPECT_EQ(simpo.gamma, 0.5);
    EXPECT_FALSE(simpo.has_reference());
    json["objective"] = {{"kind", "kto"}, {"undesirable_weight", 0.5}};
    const auto kto = train_spec(json.dump()).value();
    EXPECT_EQ(kto.preference.loss, PairLoss::Kto);
    EXPECT_EQ(kto.preference.undesirable_weight, 0.5);
    EXPECT_TRUE(kto.data.labels);
    EXPECT_EQ(kto.sequences_per_sample(), 1);
    json["objective"] = {{"kind", "sft"}, {"label_smoothing", 0.1}, {"neftune_alpha", 5}};
    EXPECT_EQ(train_spec(json.dump())->objective, Objective::Sft);
    EXPECT_EQ(train_spec(json.dump())->loss, (TokenLossSpec{0.1, 0, 5}));
    json["objective"] = {{"kind", "distill"},
                         {"z_loss", 0.01},
                         {"teacher", {{"from", "/large"}, {"top_k", 8}, {"temperature", 2}}}};
    auto distilled = train_spec(json.dump()).value();
    EXPECT_EQ(distilled.objective, Objective::Pretrain);
    EXPECT_EQ(distilled.teacher, (TeacherSpec{"/large", 8}));
    EXPECT_EQ(distilled.loss, (TokenLossSpec{0, 0.01, 0, 0.5, 2}));
    EXPECT_FALSE(distilled.data.completions);
    json["objective"]["base"] = "sft";
    json["objective"]["teacher"]["weight"] = 1;
    distilled = train_spec(json.dump()).value();
    EXPECT_EQ(distilled.objective, Objective::Sft);
    EXPECT_EQ(distilled.loss.teacher_weight, 1);
    EXPECT_TRUE(distilled.data.completions);
    json["data"]["train"] = {"/text.txt"};
    json["objective"] = "orpo";
    EXPECT_EQ(train_spec(json.dump()).error().message,
              "objective orpo needs .jsonl, .json or .parquet files with the fields chosen and "
              "rejected, but /text.txt is a file of another type");
}

TEST(TrainSpec, RefusesKeysThatAnObjectiveDoesNotHave) {
    const char* const no_model =
        "objective dpo needs a reference model; set model.from to the model that the training "
        "starts from, or objective.reference\n";
    EXPECT_EQ(problems_of("dpo"), no_model);
    EXPECT_EQ(problems_of({{"kind", "dpo"}, {"reference", "/model"}}), "");
    EXPECT_EQ(problems_of("orpo"), "");
    EXPECT_EQ(problems_of({{"kind", "orpo"}, {"gamma", 1}}),
              "objective.gamma is not a key of objective orpo; allowed: beta, nll_weight\n");
    EXPECT_EQ(problems_of({{"kind", "cpo"}, {"loss", "robust"}}),
              "objective.loss is robust; allowed with objective cpo: sigmoid, ipo, hinge\n");
    EXPECT_EQ(problems_of({{"kind", "cpo"}, {"loss", "ipo"}, {"label_smoothing", 0.1}}),
              "objective.label_smoothing is 0.1, but loss ipo does not use this value; allowed: 0, "
              "or set loss to "
              "sigmoid or robust\n");
    EXPECT_EQ(problems_of({{"kind", "sft"}, {"beta", 1}}),
              "objective.beta is not a key of objective sft; allowed: label_smoothing, z_loss, "
              "neftune_alpha\n");
    EXPECT_EQ(problems_of({{"kind", "sft"}, {"z_loss", 1e-4}}), "");
    EXPECT_EQ(problems_of({{"beta", 1}}), "") << "the schema reports that `kind` is missing";
    EXPECT_EQ(problems_of({{"kind", "grpo"}, {"beta", 1}}), "");
    EXPECT_EQ(problems_of({{"kind", "sft"}, {"teacher", {{"from", "/large"}}}}),
              "objective.teacher is not a key of objective sft; allowed: label_smoothing, z_loss, "
              "neftune_alpha\n");
    EXPECT_EQ(problems_of({{"kind", "distill"}, {"teacher", {{"from", "/large"}}}}), "");
    EXPECT_EQ(problems_of("distill"),
              "objective.teacher is missing; set it to {from: DIR}, with the directory of the "
              "teacher model\n");
    EXPECT_EQ(problems_of({{"kind", "distill"}, {"teacher", {{"from", "/l"}}}, {"beta", 1}}),
              "objective.beta is not a key of objective distill; allowed: teacher, base, "
              "label_smoothing, z_loss, neftune_alpha\n");
    EXPECT_EQ(problems_of({{"kind", "kto"}, {"reference", "/model"}, {"loss", "sigmoid"}}),
              "objective.loss is sigmoid; allowed with objective kto: kto, apo_zero_unpaired\n");
    EXPECT_EQ(problems_of({{"kind", "kto"}, {"reference", "/model"}, {"nll_weight", 1}}),
              "objective.nll_weight is not a key of objective kto; allowed: loss, beta, "
              "desirable_weight, undesirable_weight, reference\n");
    EXPECT_EQ(problems_of({{"kind", "reward"}, {"center_rewards_coefficient", 0.01}}), "");
    EXPECT_EQ(problems_of({{"kind", "reward"}, {"beta", 1}}),
              "objective.beta is not a key of objective reward; allowed: "
              "center_rewards_coefficient\n");
}

TEST(TrainSpec, HasMarginsOnlyForAReward) {
    Json document = {{"objective", "reward"}, {"data", {{"margin_field", "by"}}}};
    EXPECT_TRUE(preference_problems(document).empty());
    document["objective"] = "orpo";
    ASSERT_EQ(preference_problems(document).size(), 1);
    EXPECT_EQ(preference_problems(document)[0].path, "data.margin_field");
    Json json = smallest();
    json["data"] = {{"train", {"/pairs.jsonl"}}, {"margin_field", "by"}};
    json["objective"] = "reward";
    EXPECT_EQ(train_spec(json.dump())->data.margin_field, "by");
}

TEST(TrainSpec, RefusesWhatIsNoTrainJob) {
    EXPECT_FALSE(train_spec(R"({"kind":"convert","convert":{}})"));
    Json json = smallest();
    json["train"]["precision"] = "fp8";
    ASSERT_FALSE(train_spec(json.dump()));
    EXPECT_EQ(train_spec(json.dump()).error().message,
              "train.precision fp8 is not supported yet; supported: fp32, fp64, bf16, fp16");
    json = smallest();
    json["train"].erase("steps");
    EXPECT_EQ(train_spec(json.dump()).error().message, "train: needs a field steps");
}

}  // namespace
}  // namespace roll::spec
