#include "worker/families/model.hpp"

#include <gtest/gtest.h>

#include "worker/families/expression.hpp"

namespace roll::families {
namespace {

constexpr const char* kFamily = R"({
  "family": "toy",
  "hf": {"model_type": "toy", "defaults": {"act": "silu", "rope": {"theta": 100.0}}},
  "config": {"num_layers": "n_layer", "hidden_size": "n_embd", "num_attention_heads": "n_head",
             "num_query_groups": "n_kv", "kv_channels": "head_dim", "tied": "tied",
             "theta": ["rope.theta", "theta"]},
  "defaults": {"num_query_groups": "num_attention_heads",
               "kv_channels": "hidden_size / num_attention_heads", "tied": false, "theta": 1.0},
  "constants": {"swiglu": true},
  "requires": {"act": ["silu"]},
  "weights": [
    {"native": "embedding", "hf": "wte", "shape": ["7", "hidden_size"], "stage": "first",
     "split": "column"},
    {"native": "decoder.layers.{layer}.qkv", "hf": ["h.{layer}.q", "h.{layer}.k", "h.{layer}.v"],
     "shape": ["kv_channels", "hidden_size"], "operation": "qkv", "split": "column"},
    {"native": "output", "hf": "lm_head", "shape": ["7", "hidden_size"], "stage": "last",
     "if": "!tied"}
  ]
})";

Family toy() { return parse_family(kFamily, "toy.json").value(); }

Json sizes() { return {{"n_layer", 2}, {"n_embd", 12}, {"n_head", 4}, {"n_kv", 2}}; }

TEST(Expression, ComputesOverTheConfig) {
    const Json values{{"a", 6}, {"b", 4}};
    EXPECT_EQ(evaluate("a * (b + 2) - 1", values).value(), 35);
    EXPECT_EQ(evaluate("a*b/8", values).value(), 3);
    EXPECT_EQ(evaluate("a / b", values).error().message, "\"a / b\": 6 does not divide by 4");
    for (const char* bad : {"", "a +", "c", "(a", "a b", "9223372036854775807 * 2", "1/0"})
        EXPECT_FALSE(evaluate(bad, values)) << bad;
}

TEST(Family, NamesWhereAFileIsWrong) {
    const auto problem = [](const char* pointer, const Json& value) {
        Json json = Json::parse(kFamily);
        json[Json::json_pointer(pointer)] = value;
        const auto family = parse_family(json.dump(), "toy.json");
        return family ? "" : family.error().message;
    };
    EXPECT_EQ(problem("/weights/1/hf", {"a"}),
              "toy.json: weights[1].hf must name 3 tensors for qkv");
    EXPECT_NE(problem("/weights/1/split", "diagonal"), "");
    EXPECT_NE(problem("/weights/1/operation", "rotate"), "");
    EXPECT_NE(problem("/weights/0/stage", "layer"), "");
    EXPECT_NE(problem("/weights/2/native", 3), "");
    EXPECT_NE(problem("/typo", 3), "");
    EXPECT_FALSE(parse_family("{", "toy.json"));
    EXPECT_FALSE(parse_family("[]", "toy.json"));
}

TEST(Model, MapsAHuggingFaceConfig) {
    const Json native = native_config(toy(), sizes()).value();
    EXPECT_EQ(native["num_query_groups"], 2);
    EXPECT_EQ(native["kv_channels"], 3);
    EXPECT_EQ(native["swiglu"], true);
    EXPECT_EQ(native["theta"], 1.0);
    EXPECT_FALSE(native_config(toy(), Json{{"n_layer", 2}}));
    Json wrong = sizes();
    wrong["act"] = "gelu";
    EXPECT_EQ(native_config(toy(), wrong).error().message,
              "act is \"gelu\"; family toy covers [\"silu\"]");
    wrong = sizes();
    wrong["n_kv"] = 3;
    EXPECT_FALSE(native_config(toy(), wrong));
}

TEST(Model, CompletesSizesAndRefusesUnknownKeys) {
    const Json config = complete_hf_config(toy(), sizes()).value();
    EXPECT_EQ(config["model_type"], "toy");
    EXPECT_EQ(config["rope"]["theta"], 100.0);
    Json wrong = sizes();
    wrong["n_layers"] = 2;
    EXPECT_EQ(complete_hf_config(toy(), wrong).error().message,
              "family toy has no config key n_layers");
}

TEST(Model, ListsEveryTensorInTheOrderOfUse) {
    const auto tensors = native_tensors(toy(), native_config(toy(), sizes()).value()).value();
    ASSERT_EQ(tensors.size(), 4U);
    EXPECT_EQ(tensors[0].name, "embedding");
    EXPECT_EQ(tensors[2].name, "decoder.layers.1.qkv");
    EXPECT_EQ(tensors[2].shape, (tensor::Shape{24, 12}));
    EXPECT_EQ(tensors[2].sources[0].shape, (tensor::Shape{12, 12}));
    EXPECT_EQ(tensors[2].sources[2].name, "h.1.v");
    EXPECT_EQ(tensors[2].sources[2].shape, (tensor::Shape{6, 12}));
    EXPECT_EQ(tensors[3].name, "output");
    Json tied = sizes();
    tied["tied"] = true;
    EXPECT_EQ(native_tensors(toy(), native_config(toy(), tied).value()).value().size(), 3U);
}

}  // namespace
}  // namespace roll::families
