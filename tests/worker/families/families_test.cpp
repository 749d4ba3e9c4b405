#include "worker/families/families.hpp"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"
#include "worker/families/check.hpp"
#include "worker/families/embedded.hpp"
#include "worker/families/model.hpp"
#include "worker/families/strands.hpp"

namespace roll::families {
namespace {

TEST(Families, BuiltInOnesParse) {
    const auto families = Families::load();
    ASSERT_TRUE(families) << families.error().message;
    std::size_t model_types = 0;
    for (const EmbeddedFile& file : embedded_families())
        model_types += parse_family(file.content, file.name)->model_types.size();
    EXPECT_EQ(families->all().size(), model_types);
    EXPECT_NE(families->find("gpt5").error().message.find("llama"), std::string::npos);
}

TEST(Families, LlamaGivesTheTrainerItsConfigAndTensors) {
    const auto families = Families::load().value();
    const Family& llama = *families.find("llama").value();
    const Json sizes{{"hidden_size", 64},        {"num_hidden_layers", 3},
                     {"vocab_size", 256},        {"num_attention_heads", 4},
                     {"num_key_value_heads", 2}, {"intermediate_size", 96},
                     {"rope_theta", 500.0}};
    const Json hf = complete_hf_config(llama, sizes).value();
    const Json native = native_config(llama, hf).value();
    const auto config = model_config(llama, native).value();
    EXPECT_EQ(config.head_dim, 16);
    EXPECT_EQ(config.rope_theta, 500.0);
    EXPECT_FALSE(config.tied);
    const auto tensors = native_tensors(llama, native).value();
    ASSERT_EQ(tensors.size(), 1U + 3U * 6U + 2U);
    EXPECT_EQ(tensors[2].name, "decoder.layers.0.self_attention.linear_qkv.weight");
    EXPECT_EQ(tensors[2].shape, (tensor::Shape{128, 64}));
}

Json sizes_of_a_model() {
    return {{"hidden_size", 64},      {"num_hidden_layers", 4},   {"vocab_size", 256},
            {"head_dim", 24},         {"num_attention_heads", 4}, {"num_key_value_heads", 2},
            {"intermediate_size", 96}};
}

// Returns the trainer's config of a family's model with `extra` added to its HuggingFace config.
Result<spec::ModelConfig> trained(const char* model_type, const Json& extra) {
    const auto families = Families::load().value();
    const Family& family = *families.find(model_type).value();
    Json hf = sizes_of_a_model();
    hf.update(extra);
    ROLL_TRY(const Json native, native_config(family, hf));
    return model_config(family, native);
}

TEST(Trainable, FamiliesSayWhatTheirModelsHave) {
    const auto qwen2 = trained("qwen2", Json::object()).value();
    EXPECT_TRUE(qwen2.qkv_bias);
    EXPECT_FALSE(qwen2.out_bias || qwen2.qk_norm || qwen2.post_norms || qwen2.norm_adds_one);
    EXPECT_EQ(qwen2.window_of(3), 0) << "sliding_window alone does nothing";
    const Json no_dropout{{"attention_dropout", 0}, {"residual_dropout", 0}};
    Json out_bias = no_dropout;
    out_bias["attention_out_bias"] = true;
    const auto seed_oss = trained("seed_oss", out_bias).value();
    EXPECT_TRUE(seed_oss.qkv_bias && seed_oss.out_bias);
    EXPECT_TRUE(trained("qwen3", Json::object()).value().qk_norm);
    EXPECT_EQ(trained("mistral", {{"sliding_window", 7}}).value().window_of(2), 7);
    const auto gemma2 = trained("gemma2", {{"sliding_window", 7},
                                           {"query_pre_attn_scalar", 16},
                                           {"attn_logit_softcapping", 50.0}})
                            .value();
    EXPECT_TRUE(gemma2.norm_adds_one && gemma2.post_norms && gemma2.tied);
    EXPECT_EQ(gemma2.embedding_scale, 8);
    EXPECT_EQ(gemma2.attention_scale, 0.25);
    EXPECT_EQ(gemma2.attention_soft_cap, 50);
    EXPECT_EQ(gemma2.logit_soft_cap, 30) << "silence is transformers' default";
    EXPECT_EQ(trained("gemma2", {{"final_logit_softcapping", nullptr}}).value().logit_soft_cap, 0);
    EXPECT_EQ(trained("mistral", Json::object()).value().window, 4096);
    EXPECT_EQ(trained("mistral", {{"sliding_window", nullptr}}).value().window, 0);
    EXPECT_EQ(gemma2.activation, spec::Activation::GeluTanh);
}

// Older configs have no list of layer types. In them every other layer has a window, or all layers
// from a number on.
TEST(Trainable, LayersSlideByListOrByNumber) {
    const auto windows = [](const char* model_type, const Json& extra) {
        const auto config = trained(model_type, extra).value();
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < config.layers; ++i) list.push_back(config.window_of(i));
        return list;
    };
    using List = std::vector<std::int64_t>;
    const Json types{"full_attention", "sliding_attention", "sliding_attention", "full_attention"};
    EXPECT_EQ(windows("gemma2", {{"sliding_window", 7}}), (List{7, 0, 7, 0}));
    EXPECT_EQ(windows("gemma2", {{"sliding_window", 7}, {"layer_types", types}}),
              (List{0, 7, 7, 0}));
    EXPECT_EQ(
        windows("qwen3",
                {{"sliding_window", 7}, {"use_sliding_window", true}, {"max_window_layers", 3}}),
        (List{0, 0, 0, 7}));
    // transformers uses the list if there is one. Without list and number, none of the 28 layers
    // has a window.
    for (const char* model_type : {"qwen2", "qwen3"}) {
        const Json slides{{"sliding_window", 7}, {"use_sliding_window", true}};
        Json listed = slides;
        listed.update({{"max_window_layers", 3}, {"layer_types", types}});
        EXPECT_EQ(windows(model_type, listed), (List{0, 7, 7, 0}));
        EXPECT_EQ(windows(model_type, slides), (List{0, 0, 0, 0}));
    }
}

TEST(Trainable, BothSpellingsOfScaledRotaryEmbeddings) {
    const Json llama3{{"rope_type", "llama3"},  {"factor", 8.0},
                      {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                      {"rope_theta", 500.0},    {"original_max_position_embeddings", 512}};
    const spec::RopeScaling expected{spec::RopeScaling::Kind::Wavelength, 8, 1, 4, 512};
    EXPECT_EQ(trained("llama", {{"rope_scaling", llama3}}).value().rope_scaling, expected);
    EXPECT_EQ(trained("llama", {{"rope_parameters", llama3}}).value().rope_scaling, expected);
    EXPECT_EQ(trained("llama", {{"rope_parameters", llama3}}).value().rope_theta, 500);
    const Json linear{{"type", "linear"}, {"factor", 2.0}};
    EXPECT_EQ(trained("llama", {{"rope_scaling", linear}}).value().rope_scaling.kind,
              spec::RopeScaling::Kind::Linear);
    // If a config has both objects, transformers reads rope_scaling. If the object has both keys,
    // transformers reads rope_type and not type.
    const Json plain{{"rope_type", "default"}, {"type", "linear"}, {"factor", 2.0}};
    EXPECT_EQ(trained("llama", {{"rope_scaling", linear}, {"rope_parameters", llama3}})
                  .value()
                  .rope_scaling.kind,
              spec::RopeScaling::Kind::Linear);
    EXPECT_EQ(trained("llama", {{"rope_scaling", plain}}).value().rope_scaling,
              spec::RopeScaling{});
}

// In older configs, the number of positions before stretching is outside the scaling object.
TEST(Trainable, OriginalPositionsMayStandBesideTheScaling) {
    const Json factors(12, 1.5);
    const Json rope{{"type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}};
    const auto scaling = [&](const Json& extra) {
        Json config{{"rope_scaling", rope}, {"max_position_embeddings", 4096}};
        config.update(extra);
        return trained("llama", config).value().rope_scaling;
    };
    EXPECT_EQ(scaling(Json::object()).original_positions, 4096);
    const auto old = scaling({{"original_max_position_embeddings", 512}});
    EXPECT_EQ(old.original_positions, 512);
    EXPECT_EQ(old.factor, 8);
}

TEST(Trainable, YarnHasTransformersDefaults) {
    const auto read = [](Json rope) {
        rope["type"] = "yarn";
        return trained("llama", {{"rope_scaling", rope}, {"max_position_embeddings", 4096}})
            .value()
            .rope_scaling;
    };
    const spec::RopeScaling plain = read({{"original_max_position_embeddings", 1024}});
    const double inferred = 0.1 * std::log(4.0) + 1;
    const spec::RopeScaling expected{spec::RopeScaling::Kind::Yarn, 4, 1, 32, 1024, inferred, true};
    EXPECT_EQ(plain, expected);
    EXPECT_EQ(read({{"factor", 2.0}}).original_positions, 4096);
    EXPECT_EQ(read({{"factor", 0.5}}).attention_factor, 1);
    EXPECT_EQ(read({{"factor", 2.0}, {"attention_factor", 1.5}, {"truncate", false}}).whole, false);
    EXPECT_EQ(read({{"factor", 2.0}, {"attention_factor", 1.5}}).attention_factor, 1.5);
    // Dynamic scaling changes nothing, because the model is no longer than its config says.
    const Json dynamic{{"type", "dynamic"}, {"factor", 2.0}};
    EXPECT_EQ(trained("llama", {{"rope_scaling", dynamic}}).value().rope_scaling,
              spec::RopeScaling{});
}

TEST(Trainable, ExpertsOfBothFamilies) {
    const spec::ModelConfig one =
        trained("mixtral", {{"num_local_experts", 4}, {"router_aux_loss_coef", 0.5}}).value();
    EXPECT_EQ(one.experts, 4);
    EXPECT_EQ(one.experts_per_token, 2);
    EXPECT_EQ(one.balance_loss, 0.5);
    EXPECT_TRUE(one.normalizes_experts);
    Json more{{"num_experts", 6}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 8}};
    const spec::ModelConfig two = trained("qwen3_moe", more).value();
    EXPECT_EQ(two.experts, 6);
    EXPECT_EQ(two.experts_per_token, 3);
    EXPECT_EQ(two.intermediate, 8);
    EXPECT_EQ(two.balance_loss, 0.001);
    EXPECT_FALSE(two.normalizes_experts);
    more["norm_topk_prob"] = true;
    EXPECT_TRUE(trained("qwen3_moe", more).value().normalizes_experts);
}

TEST(Trainable, WhatIsNotBuiltIsNamed) {
    const auto refusal = [](const char* model_type, const Json& extra) {
        return trained(model_type, extra).error().message;
    };
    EXPECT_EQ(refusal("llama", {{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 4.0}}}}),
              "short_factor must be a list of 12 numbers above 0, half as many as kv_channels");
    EXPECT_EQ(refusal("llama", {{"rope_scaling", {{"rope_type", "spiral"}, {"factor", 4.0}}}}),
              "the trainer does not build rotary embeddings of type spiral yet; Roll can only "
              "convert such a model");
    EXPECT_EQ(refusal("llama", {{"attention_dropout", 0.1}}),
              "the trainer does not build models with attention_dropout 0.1 yet; set "
              "model.attention_dropout to 0 in the job to train without dropout");
    EXPECT_EQ(refusal("seed_oss", {{"attention_dropout", 0}}),
              "the trainer does not build models with hidden_dropout 0.1 yet; set "
              "model.residual_dropout to 0 in the job to train without dropout");
    EXPECT_EQ(refusal("mixtral", {{"num_local_experts", 4}, {"router_jitter_noise", 0.1}}),
              "the trainer does not build models with router_jitter_noise yet; Roll can only "
              "convert such a model");
    EXPECT_EQ(refusal("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
              "moe_router_topk is 5; allowed: 1 to num_moe_experts, which is 4");
    const Json experts{
        {"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}};
    Json sparse = experts;
    sparse["decoder_sparse_step"] = 2;
    EXPECT_EQ(refusal("qwen3_moe", sparse),
              "the trainer does not build layers without experts beside layers with experts yet; "
              "Roll can only convert such a model");
    Json shared = experts;
    shared["shared_expert_intermediate_size"] = 8;
    EXPECT_EQ(refusal("qwen2_moe", shared),
              "the trainer does not build models with a tensor "
              "decoder.layers.0.mlp.shared_experts.linear_fc1.weight yet; Roll can only convert "
              "such a model");
    EXPECT_EQ(refusal("mistral", {{"sliding_window", -3}}),
              "the config needs a whole number above 0 for the key sliding_window, not -3");
    EXPECT_EQ(refusal("llama", {{"head_dim", 7}}),
              "kv_channels is 7; rotary embeddings need an even number");
    EXPECT_NE(refusal("gemma3_text", Json::object()), "");
}

// Changes one random value in a JSON document.
void mutate(Json& json, std::uint64_t& state) {
    const auto random = [&](std::uint64_t below) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (state >> 33U) % below;
    };
    Json* place = &json;
    while (place->is_structured() && !place->empty() && random(5) != 0)
        place = &*std::next(place->begin(), static_cast<std::ptrdiff_t>(random(place->size())));
    const Json others[] = {nullptr,
                           -1,
                           0,
                           1e300,
                           std::int64_t{1} << 62U,
                           "",
                           "{layer}",
                           "a * (b",
                           "hidden_size / 7",
                           true,
                           Json::array(),
                           Json::object(),
                           {1, 2},
                           "!moe",
                           "{expert}",
                           {{"layers", "x"}},
                           {{"layers", 3}},
                           "column",
                           "qkv"};
    *place = others[random(std::size(others))];
}

TEST(Families, NoMutatedFileOrConfigCrashes) {
    std::uint64_t state = 5;
    const Json sizes{{"hidden_size", 64},          {"num_hidden_layers", 3},   {"vocab_size", 256},
                     {"intermediate_size", 96},    {"num_attention_heads", 4}, {"num_experts", 4},
                     {"num_local_experts", 4},     {"n_routed_experts", 4},    {"n_group", 1},
                     {"moe_intermediate_size", 8}, {"n_shared_experts", 1},    {"topk_group", 1},
                     {"num_key_value_heads", 2}};
    std::size_t listed = 0;
    for (int i = 0; i < 6000; ++i) {
        const auto files = embedded_families();
        Json file = Json::parse(files[static_cast<std::size_t>(i) % files.size()].content);
        Json hf = sizes;
        for (int k = 0; k < i % 4; ++k) mutate(file, state);
        if (i % 3 == 0) mutate(hf, state);
        const auto family = parse_family(file.dump(), "mutated");
        if (!family) continue;
        const auto native = native_config(*family, hf);
        if (!native) continue;
        if (const auto tensors = native_tensors(*family, *native, hf)) ++listed;
    }
    EXPECT_GT(listed, 500U);
}

// Returns the error for a built-in file after `change` has put a mistake into it.
std::string wrong_in(const char* name, const std::function<void(Json&)>& change) {
    for (const EmbeddedFile& file : embedded_families()) {
        if (file.name != std::string(name) + ".json") continue;
        Json json = Json::parse(file.content);
        change(json);
        const auto family = parse_family(json.dump(), "file");
        if (!family) return family.error().message;
        const auto checked = check_family(*family);
        return checked ? "" : checked.error().message + "; " + checked.error().hint;
    }
    return "no such file";
}

TEST(Families, CheckFindsNoFaultInBuiltInOnes) {
    for (const EmbeddedFile& file : embedded_families()) {
        const auto checked = check_family(parse_family(file.content, file.name).value());
        EXPECT_TRUE(checked) << file.name << ": " << checked.error().message;
    }
}

TEST(Families, CheckFindsMisspeltNames) {
    const auto finds = [](const std::string& error, const char* word) {
        EXPECT_NE(error.find(word), std::string::npos) << error;
    };
    finds(wrong_in("llama",
                   [](Json& json) {
                       for (Json& rule : json["weights"])
                           if (rule["native"] == "decoder.layers.{layer}.mlp.linear_fc2.weight")
                               rule["native"] = "decoder.layers.{layer}.mlp.linaer_fc2.weight";
                   }),
          "did you mean linear_fc2?");
    finds(wrong_in("llama",
                   [](Json& json) { json["config"]["num_layres"] = json["config"]["num_layers"]; }),
          "did you mean num_layers?");
    finds(wrong_in("llama", [](Json& json) { json["weights"][0]["if"] = "!tie_embeddings"; }),
          "uses tie_embeddings, which neither config nor constants sets");
    finds(wrong_in("llama", [](Json& json) { json["weights"][0]["shape"][0] = "2 * vocab_rows"; }),
          "uses vocab_rows");
}

TEST(Families, CheckFindsRowsThatNoStrandTakes) {
    const auto strand = [](const std::function<void(Json&)>& change) {
        return wrong_in("qwen3_next", [&](Json& json) {
            for (Json& rule : json["weights"])
                if (rule["native"].get<std::string>().ends_with("linear_qkv.weight"))
                    change(rule["strands"][0]);
        });
    };
    EXPECT_EQ(strand([](Json&) {}), "");
    const std::string silent = strand([](Json& json) { json.erase("step"); });
    EXPECT_NE(silent.find("step is missing: `times` requires `step`"), std::string::npos) << silent;
    const std::string twice = strand([](Json& json) { json["step"] = "kv_channels"; });
    EXPECT_NE(twice.find("two parts of the tensor contain row 6 of"), std::string::npos) << twice;
    const std::string none = strand([](Json& json) { json["rows"] = "kv_channels / 2"; });
    EXPECT_NE(none.find("no part of the tensor contains row 3 of"), std::string::npos) << none;
}

// A conversion does not run check_family(), so check_strands() must also refuse rows that are left
// out.
TEST(Families, ATensorOfWhichRowsAreLeftOutIsRefused) {
    NativeTensor tensor;
    tensor.name = "fused";
    tensor.sources = {{"hf", {24, 5}}};
    tensor.groups = 2;
    tensor.strands = {{0, 0, 3, 2, 3, 12}, {0, 6, 6, 1, 0, 12}};
    EXPECT_TRUE(check_strands(tensor));
    // rows 0 to 2 are used twice and 3 to 5 never, although the count is right
    tensor.strands[0].step = 0;
    EXPECT_EQ(check_strands(tensor).error().message,
              "fused: two parts of the tensor contain row 0 of hf, which has 24 rows");
    tensor.strands[0] = {0, 1, 3, 2, 3, 12};
    EXPECT_EQ(check_strands(tensor).error().message,
              "fused: no part of the tensor contains row 0 of hf, which has 24 rows");
    tensor.strands[0] = {0, 0, std::int64_t{1} << 40U, std::int64_t{1} << 40U, 3, 12};
    EXPECT_FALSE(check_strands(tensor)) << "no size overflows";
}

TEST(Families, OneFileCoversSeveralModelTypes) {
    const Families families = Families::load().value();
    EXPECT_EQ(families.find("kimi_k2").value()->name, "deepseek_v3");
    EXPECT_EQ(families.find("kimi_k2").value()->model_type, "deepseek_v3");
    EXPECT_TRUE(Families::load_for("kimi_k2").value().find("kimi_k2"));
}

TEST(Families, OneAloneIsTheSameOne) {
    const Families all = Families::load().value();
    for (const auto& [model_type, family] : all.all()) {
        const Families one = Families::load_for(model_type).value();
        EXPECT_EQ(one.find(model_type).value()->weights.size(), family.weights.size());
    }
    EXPECT_EQ(Families::load_for("llama").value().all().size(), 1U);
    EXPECT_EQ(Families::load_for("lama").value().all().size(), all.all().size());
}

TEST(Families, ADirectoryAddsFamilies) {
    const TemporaryFolder directory;
    Json added = Json::parse(embedded_families()[0].content);
    added["hf"]["model_type"] = "added";
    std::ofstream(directory / "added.json") << added.dump();
    ::setenv("ROLL_FAMILIES", directory.string().c_str(), 1);
    EXPECT_TRUE(Families::load().value().find("added"));
    std::ofstream(directory / "added.json") << "{}";
    EXPECT_FALSE(Families::load());
    ::unsetenv("ROLL_FAMILIES");
}

}  // namespace
}  // namespace roll::families
