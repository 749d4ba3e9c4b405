#include "common/spec/train/lora.hpp"

#include <gtest/gtest.h>

#include "common/spec/check/lora_rules.hpp"
#include "common/spec/train/read_lora.hpp"

namespace roll::spec {
namespace {

TEST(LoraSpec, TargetsAreAllLinearLayersUnlessTheyAreListed) {
    EXPECT_FALSE(lora_spec(Json()).is_set());
    const LoraSpec all = lora_spec(Json::object());
    ASSERT_EQ(all.modules.size(), kLoraPlaces.size());
    EXPECT_EQ(all.modules[3], (LoraModule{LoraPlace::Out, 8, 8, 1}));
    const LoraSpec some = lora_spec({{"r", 4},
                                     {"alpha", 6},
                                     {"rslora", true},
                                     {"targets", {"down_proj", "q_proj"}},
                                     {"rank_pattern", {{"down_proj", 9}}},
                                     {"alpha_pattern", {{"q_proj", 5}}}});
    const std::vector<LoraModule> expected = {{LoraPlace::Q, 4, 5, 2.5},
                                              {LoraPlace::Down, 9, 6, 2}};
    EXPECT_EQ(some.modules, expected);
    EXPECT_EQ(lora_spec({{"targets", "up_proj"}}).modules.size(), 1U);
}

TEST(LoraSpec, RefusesWhatCannotBeTrained) {
    const std::vector<std::tuple<const char*, Json, const char*>> cases = {
        {"/train/lora/targets",
         {"q_proj", "wq"},
         "train.lora.targets has wq, which matches no linear layer of the model; allowed: "
         "`all-linear` alone, or modules of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "
         "down_proj"},
        {"/train/lora/targets", Json::array(),
         "train.lora.targets is empty; allowed: `all-linear`, or modules of q_proj, k_proj, "
         "v_proj, "
         "o_proj, gate_proj, up_proj, down_proj"},
        {"/train/lora/rank_pattern/wq", 4,
         "train.lora.rank_pattern.wq is not one of the targets; allowed: a name in "
         "train.lora.targets, or a regular expression"},
        {"/train/lora/rank_pattern/layers.(0", 4,
         "train.lora.rank_pattern has layers.(0; allowed: a regular expression of at most 256 "
         "characters, without `{`"},
        {"/train/lora/rank_pattern/(q_proj{300}){300}", 4,
         "train.lora.rank_pattern has (q_proj{300}){300}; allowed: a regular expression of at "
         "most 256 characters, without `{`"},
        {"/train/lora/layers_pattern", "layers",
         "train.lora.layers_pattern needs train.lora.layers"},
        {"/train/lora/modules_to_save", "norm",
         "train.lora.modules_to_save has norm, which cannot be trained in full together with LoRA; "
         "allowed: embed_tokens, lm_head"},
        {"/train/lora/double_quantization", true,
         "train.lora.double_quantization is true, but train.lora.base is not nf4, and only nf4 has "
         "scales that can be quantized; allowed: false, or set train.lora.base to nf4"},
        {"/model",
         {{"family", "llama"}},
         "train.lora needs a trained model; set model.from to a model's directory"},
        {"/model/vocab_size", 300,
         "model.vocab_size cannot be used with train.lora, because PEFT's adapters do not add rows "
         "to the vocabulary; remove it"},
        {"/model/freeze",
         {"*norm*"},
         "model.freeze cannot be used with train.lora, which freezes the model's own weights; "
         "remove it"},
        {"/train/lora", Json(),
         "export.merge is true, but there is no adapter to merge; allowed: false, or set "
         "train.lora"},
    };
    const Json good = {{"model", {{"from", "m"}}},
                       {"train", {{"lora", {{"r", 4}}}}},
                       {"export", {{"merge", true}}}};
    EXPECT_TRUE(lora_problems(good).empty());
    for (const auto& [pointer, value, expected] : cases) {
        Json json = good;
        json[Json::json_pointer(pointer)] = value;
        if (value.is_null()) {
            const auto at = Json::json_pointer(pointer);
            json[at.parent_pointer()].erase(at.back());
        }
        const auto problems = lora_problems(json);
        ASSERT_EQ(problems.size(), 1U) << pointer;
        EXPECT_EQ(problems[0].path + " " + problems[0].message, expected);
    }
    Json sizes = good;
    sizes["model"] = {{"family", "llama"}, {"vocab_size", 300}};
    EXPECT_EQ(lora_problems(sizes).size(), 1U) << "only that the model is missing";
    // Other checks refuse a document that describes no model
    sizes["model"] = Json::object();
    EXPECT_TRUE(lora_problems(sizes).empty());
    sizes.erase("model");
    EXPECT_TRUE(lora_problems(sizes).empty());
}

// The names of the modules of a model with three layers.
std::vector<std::string> module_names() {
    std::vector<std::string> names = {"model.embed_tokens", "model.norm", "lm_head",
                                      "model.layers.1.self_attn.q_proj"};  // again, for its bias
    for (const char* layer : {"0", "1", "2"})
        for (const auto& [name, place] : kLoraPlaces)
            names.push_back("model.layers." + std::string(layer) +
                            (place < LoraPlace::Gate ? ".self_attn." : ".mlp.") +
                            std::string(name));
    return names;
}

TEST(LoraSpec, TheAdapterOfARewardModelIsExportedAfterTrainingOnly) {
    Json json = {{"model", {{"from", "m"}}},
                 {"objective", "reward"},
                 {"train", {{"lora", {{"r", 4}}}}},
                 {"export", {{"every", 0}}}};
    EXPECT_TRUE(lora_problems(json).empty());
    json["export"] = {{"every", 2}, {"merge", true}};
    const auto problems = lora_problems(json);
    ASSERT_EQ(problems.size(), 2U);
    EXPECT_EQ(problems[0].path, "export.merge");
    EXPECT_EQ(problems[1].path + " " + problems[1].message,
              "export.every is 2, but Roll checks an export during training by merging it and its "
              "checkpoint into the base model, which has no `score` layer; allowed: 0 with "
              "objective reward and train.lora");
    json["objective"] = "dpo";
    EXPECT_TRUE(lora_problems(json).empty());
}

TEST(LoraSpec, PatternsChooseLayersAndRanksAsPeftDoes) {
    const LoraSpec lora = lora_spec({{"r", 2},
                                     {"alpha", 6},
                                     {"targets", {"q_proj", "layers.2.mlp.up_proj", "o_proj"}},
                                     {"exclude", {"1.self_attn.o_proj"}},
                                     {"layers", {1, 2}},
                                     {"layers_pattern", "layers"},
                                     {"rank_pattern", {{R"(layers\.2\..*q_proj)", 3}}},
                                     {"alpha_pattern", {{"2.self_attn.o_proj", 4}}}});
    ASSERT_TRUE(lora.is_set());
    const std::vector<LoraModule> expected = {{LoraPlace::Q, 2, 6, 3, 1},
                                              {LoraPlace::Q, 3, 6, 2, 2},
                                              {LoraPlace::Out, 2, 4, 2, 2},
                                              {LoraPlace::Up, 2, 6, 3, 2}};
    EXPECT_EQ(resolve_lora(lora, module_names())->modules, expected);
    const LoraSpec matched = lora_spec(
        {{"targets", R"(model\.layers\.[01]\..*(q|v)_proj)"}, {"exclude", R"(.*\.0\..*v_proj)"}});
    const auto modules = resolve_lora(matched, module_names())->modules;
    ASSERT_EQ(modules.size(), 3U);
    EXPECT_EQ(modules[2].place, LoraPlace::V);
    EXPECT_EQ(modules[2].layer, 1);
    EXPECT_EQ(resolve_lora(lora_spec({{"layers", 2}}), module_names())->modules.size(), 7U);
}

TEST(LoraSpec, APatternThatMatchesNothingIsRefused) {
    const auto message = [](const Json& lora) {
        const auto problems = lora_target_problems(lora_spec(lora), module_names());
        return problems.empty() ? "" : problems[0].path + " " + problems[0].message;
    };
    EXPECT_EQ(message({{"targets", {"layers.3.mlp.up_proj"}}}),
              "train.lora.targets has layers.3.mlp.up_proj, which matches no linear layer of this "
              "model; its linear layers have names like model.layers.0.self_attn.q_proj");
    EXPECT_EQ(
        message({{"targets", "layers\\..*"}}),
        "train.lora.targets has layers\\..*, which matches no linear layer of this model; its "
        "linear layers have names like model.layers.0.self_attn.q_proj");
    EXPECT_EQ(message({{"layers", {0, 3}}}), "train.lora.layers has 3; allowed: 0 to 2");
    EXPECT_EQ(message({{"exclude", ".*"}}),
              "train.lora.targets selects no linear layer of this model, because "
              "train.lora.exclude or train.lora.layers_pattern excludes all layers; change one of "
              "these keys");
    EXPECT_EQ(message({{"layers", 1}, {"rank_pattern", {{"layers.0.*", 4}}}}),
              "train.lora.rank_pattern has layers.0.*, which matches no module with LoRA; "
              "modules with LoRA have names like model.layers.1.self_attn.q_proj");
    EXPECT_EQ(message({{"alpha_pattern", {{".*q_proj", 4}, {".*[qk]_proj", 5}}}}),
              "train.lora.alpha_pattern has .*[qk]_proj and .*q_proj, which both match "
              "model.layers.0.self_attn.q_proj and give different values; change one of them so "
              "that it does not match");
    EXPECT_EQ(message({{"alpha_pattern", {{".*q_proj", 4}, {".*[qk]_proj", 4}}}}), "");
}

TEST(LoraSpec, ATargetThatTheModelLacksIsRefusedWithTheNamesThatItHas) {
    const std::vector<std::string> fused = {"norm", "qkv_proj", "o_proj", "down_proj"};
    const auto problems = lora_target_problems(lora_spec(Json::object()), fused);
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].message,
              "asks for q_proj, which matches no linear layer of this model; allowed: a list of "
              "o_proj, down_proj");
    EXPECT_TRUE(lora_target_problems(lora_spec({{"targets", "o_proj"}}), fused).empty());
    const auto tied = lora_target_problems(
        lora_spec({{"targets", "o_proj"}, {"modules_to_save", "embed_tokens"}}), fused);
    ASSERT_EQ(tied.size(), 1U);
    EXPECT_EQ(tied[0].message,
              "has embed_tokens; remove embed_tokens, because this model ties its embedding and "
              "its output "
              "layer, and a PEFT adapter cannot hold a tied weight");
    const auto message_of = [](const char* saved, const char* head) {
        const auto found = lora_target_problems(
            lora_spec({{"targets", "o_proj"}, {"modules_to_save", saved}}), {"o_proj", head});
        return found.empty() ? "" : found[0].message;
    };
    EXPECT_EQ(message_of("score", "score"), "");
    EXPECT_EQ(message_of("embed_tokens", "score"), "");
    EXPECT_EQ(message_of("score", "lm_head"),
              "has score, but only a reward model has a score; remove score");
    EXPECT_EQ(message_of("lm_head", "score"),
              "has lm_head, but a reward model has no output layer; remove lm_head");
}

}  // namespace
}  // namespace roll::spec
