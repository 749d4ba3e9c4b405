#include "common/spec/lora.hpp"

#include <gtest/gtest.h>

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
         "train.lora.targets, without a layer's number"},
        {"/train/lora/modules_to_save", "norm",
         "train.lora.modules_to_save has norm, which cannot be trained in full together with LoRA; "
         "allowed: embed_tokens, lm_head"},
        {"/train/lora/double_quantization", true,
         "train.lora.double_quantization is true, but only the scales of base nf4 can be "
         "quantized; allowed: false, or set train.lora.base to nf4"},
        {"/model/from", Json(),
         "train.lora needs a trained model; set model.from to a model's directory"},
        {"/model/vocab_size", 300,
         "model.vocab_size cannot be used with train.lora, because PEFT's adapters do not add rows "
         "to the vocabulary; remove it"},
        {"/model/freeze",
         {"*norm*"},
         "model.freeze cannot be used with train.lora, which freezes the model's own weights; "
         "remove it"},
        {"/resources/gpus_per_node", 1,
         "train.lora runs on CPUs only; set resources.slots_per_node instead of gpus_per_node"},
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
