#include "worker/families/active.hpp"

#include <gtest/gtest.h>

#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/plan/cost.hpp"

namespace roll::families {
namespace {

Active active_of(const char* model_type, const Json& hf) {
    const auto families = Families::load().value();
    const Family& family = *families.find(model_type).value();
    const Json native = native_config(family, hf).value();
    const auto active = active_parameters(native, native_tensors(family, native, hf).value());
    EXPECT_TRUE(active) << active.error().message;
    return active.value_or(Active{});
}

const Json kMixtral{{"hidden_size", 4096},      {"num_hidden_layers", 32},
                    {"vocab_size", 32000},      {"num_attention_heads", 32},
                    {"num_key_value_heads", 8}, {"intermediate_size", 14336},
                    {"num_local_experts", 8},   {"num_experts_per_tok", 2}};

// The numbers are counted by hand. Published: 46.7 B with 12.9 B active.
TEST(Active, Mixtral8x7B) {
    const Active active = active_of("mixtral", kMixtral);
    EXPECT_EQ(active.parameters, 46'702'792'704);
    EXPECT_EQ(active.per_token, 12'879'925'248);
    EXPECT_EQ(active.flops, 76'491'522'048.0);
}

// Published: 30.5 B with 3.3 B active.
TEST(Active, Qwen3Of30B) {
    const Active active = active_of("qwen3_moe", {{"hidden_size", 2048},
                                                  {"num_hidden_layers", 48},
                                                  {"vocab_size", 151936},
                                                  {"num_attention_heads", 32},
                                                  {"num_key_value_heads", 4},
                                                  {"head_dim", 128},
                                                  {"intermediate_size", 6144},
                                                  {"moe_intermediate_size", 768},
                                                  {"num_experts", 128},
                                                  {"num_experts_per_tok", 8},
                                                  {"norm_topk_prob", true},
                                                  {"tie_word_embeddings", false}});
    EXPECT_EQ(active.parameters, 30'532'122'624);
    EXPECT_EQ(active.per_token, 3'353'032'704);
    EXPECT_EQ(active.flops, 18'249'940'992.0);
}

// Published: 671 B with 37 B active, without the layer of multi-token prediction.
TEST(Active, DeepSeekV3) {
    const Active active = active_of("deepseek_v3", {{"hidden_size", 7168},
                                                    {"num_hidden_layers", 61},
                                                    {"vocab_size", 129280},
                                                    {"num_attention_heads", 128},
                                                    {"num_key_value_heads", 128},
                                                    {"intermediate_size", 18432},
                                                    {"moe_intermediate_size", 2048},
                                                    {"n_routed_experts", 256},
                                                    {"n_shared_experts", 1},
                                                    {"num_experts_per_tok", 8},
                                                    {"first_k_dense_replace", 3},
                                                    {"num_nextn_predict_layers", 1},
                                                    {"n_group", 8},
                                                    {"topk_group", 4},
                                                    {"routed_scaling_factor", 2.5},
                                                    {"norm_topk_prob", true},
                                                    {"q_lora_rank", 1536},
                                                    {"kv_lora_rank", 512},
                                                    {"qk_nope_head_dim", 128},
                                                    {"qk_rope_head_dim", 64},
                                                    {"v_head_dim", 128}});
    EXPECT_EQ(active.parameters, 671'026'419'200);
    EXPECT_EQ(active.per_token, 37'552'297'472);
    EXPECT_EQ(active.flops, 219'747'581'952.0);
}

// SmolLM2-135M: 6 FLOPs a weight of a product, and the tied embedding is the output layer.
TEST(Active, AModelWithoutExpertsUsesAllParameters) {
    const Active active = active_of("llama", {{"hidden_size", 576},
                                              {"num_hidden_layers", 30},
                                              {"vocab_size", 49152},
                                              {"num_attention_heads", 9},
                                              {"num_key_value_heads", 3},
                                              {"intermediate_size", 1536},
                                              {"tie_word_embeddings", true}});
    EXPECT_EQ(active.parameters, 134'515'008);
    EXPECT_EQ(active.per_token, 134'515'008);
    EXPECT_EQ(active.flops, 6 * (134'515'008.0 - 61 * 576));
}

// The trainer's MFU and `inspect` count the same products with weights. Therefore the counts of
// models with experts above hold for MFU too, because attention scores do not depend on experts.
TEST(Active, TheTrainerCountsTheSameFlops) {
    const auto families = Families::load().value();
    const Json sizes{{"hidden_size", 64},        {"num_hidden_layers", 3},
                     {"vocab_size", 300},        {"num_attention_heads", 4},
                     {"num_key_value_heads", 2}, {"intermediate_size", 96},
                     {"head_dim", 24},           {"max_position_embeddings", 64},
                     {"rms_norm_eps", 1e-6},     {"tie_word_embeddings", false},
                     {"attention_dropout", 0.0}};
    for (const char* model_type : {"llama", "qwen2", "qwen3", "mistral"}) {
        const Family& family = *families.find(model_type).value();
        const auto model = model_config(family, native_config(family, sizes).value());
        ASSERT_TRUE(model) << model.error().message;
        constexpr double kScores = 12.0 * 3 * 4;  // FLOPs per position: 3 layers with 4 heads
        const double heads = kScores * static_cast<double>(model->head_dim);
        const plan::FlopsPerToken flops = plan::flops_per_token(*model, 8);
        EXPECT_DOUBLE_EQ(flops.full - 8 * heads, active_of(model_type, sizes).flops) << model_type;
        EXPECT_DOUBLE_EQ(flops.causal - 4.5 * heads, active_of(model_type, sizes).flops);
    }
}

TEST(Active, ATopKThatTheModelCannotHaveIsRefused) {
    const auto families = Families::load().value();
    const Family& mixtral = *families.find("mixtral").value();
    Json native = native_config(mixtral, kMixtral).value();
    const auto tensors = native_tensors(mixtral, native).value();
    for (const Json& k : {Json(0), Json(9), Json("two"), Json()}) {
        native["moe_router_topk"] = k;
        EXPECT_FALSE(active_parameters(native, tensors)) << k;
    }
}

}  // namespace
}  // namespace roll::families
