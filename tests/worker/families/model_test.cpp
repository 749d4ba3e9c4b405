#include "worker/families/model.hpp"

#include <gtest/gtest.h>

#include "worker/families/expression.hpp"

namespace roll::families {
namespace {

constexpr const char* kFamily = R"({
  "family": "toy",
  "hf": {"model_type": "toy", "defaults": {"act": "silu", "rope": {"theta": 100.0}}},
  "config": {"num_layers": "n_layer", "hidden_size": "n_embd", "num_attention_heads": "n_head",
             "num_query_groups": {"from": "n_kv", "else": "num_attention_heads"},
             "kv_channels": {"from": "head_dim", "else": "hidden_size / num_attention_heads"},
             "tied": {"from": "tied", "else": false},
             "theta": {"from": ["rope.theta", "theta"], "else": 1.0}},
  "constants": {"swiglu": true},
  "requires": {"act": ["silu"]},
  "weights": [
    {"native": "embedding", "hf": "wte", "shape": ["7", "hidden_size"], "stage": "first",
     "split": "column"},
    {"native": "decoder.layers.{layer}.qkv", "hf": ["h.{layer}.q", "h.{layer}.k", "h.{layer}.v"],
     "shape": ["kv_channels", "hidden_size"], "operation": "qkv"},
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
    EXPECT_EQ(evaluate("a / b", values).error().message, "\"a / b\": 6 is not divisible by 4");
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
    EXPECT_EQ(problem("/config/tied/else", Json()), "");
    EXPECT_NE(problem("/config/tied/otherwise", false), "");
    EXPECT_NE(problem("/config/tied/from", 3), "");
    EXPECT_NE(problem("/weights/1/operation", "rotate"), "");
    EXPECT_NE(problem("/weights/0/stage", "layer"), "");
    EXPECT_NE(problem("/weights/2/native", 3), "");
    EXPECT_NE(problem("/typo", 3), "");
    EXPECT_NE(problem("/weights/0/operation", "strands"), "");
    EXPECT_NE(problem("/weights/1/repeat", {{"block", 2}}), "");
    EXPECT_NE(problem("/packed", {{{"hf", "x"}, {"of", {"y"}}, {"packing", "stacked"}}}), "");
    EXPECT_NE(problem("/packed", {{{"hf", "{layer}"}, {"of", {"{layer}{expert}"}}}}), "");
    EXPECT_NE(problem("/mtp", {{"from", "x"}}), "");
    EXPECT_EQ(problem("/config/tied/null", true), "");
    const Json kinds[] = {{{"else", 3}},
                          {{"from", "a"}, {"every", "b"}},
                          {{"from", "a"}, {"else", -1}},
                          {{"in", "a"}},
                          {{"from", "a"}, {"except_every", 2}}};
    for (const Json& kind : kinds) EXPECT_NE(problem("/layers/some", kind), "") << kind;
    EXPECT_EQ(problem("/layers/some", {{"in", "a"}, {"value", "w"}, {"from", "b"}, {"else", 9}}),
              "");
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

TEST(Model, NullIsSilenceUnlessTheTableSaysOtherwise) {
    Json json = Json::parse(kFamily);
    Json config = sizes();
    config["tied"] = nullptr;
    EXPECT_EQ(native_config(toy(), config).value()["tied"], false);
    json["config"]["tied"] = {{"from", "tied"}, {"else", 3}, {"null", "num_attention_heads"}};
    const Family family = parse_family(json.dump(), "toy.json").value();
    EXPECT_EQ(native_config(family, config).value()["tied"], 4);
    EXPECT_EQ(native_config(family, sizes()).value()["tied"], 3);
}

TEST(Model, KeysAreSetInBothConfigs) {
    Json config = sizes(), native = native_config(toy(), config).value();
    ASSERT_TRUE(set_keys(toy(), {{"rope.theta", 7.0}, {"n_kv", 1}}, config, native));
    EXPECT_EQ(config["rope"]["theta"], 7.0);
    EXPECT_EQ(native["theta"], 7.0);
    EXPECT_EQ(native["num_query_groups"], 1);
    EXPECT_EQ(set_keys(toy(), {{"drop", 0}}, config, native).error().message,
              "family toy has no config key drop");
}

// In q, the rows of two heads alternate with their gates. The rows of k follow.
TEST(Model, StrandsTakeEveryRowOnceOrAreRefused) {
    Json json = Json::parse(kFamily);
    json["weights"][1] = {
        {"native", "decoder.layers.{layer}.qk"},
        {"hf", {"h.{layer}.q", "h.{layer}.k"}},
        {"shape", {{"2 * n", "hidden_size"}, {"hidden_size"}}},
        {"operation", "strands"},
        {"groups", "num_query_groups"},
        {"by", "group"},
        {"strands",
         {{{"of", 0}, {"rows", "3"}, {"times", "2"}, {"step", "6"}, {"block", "12"}},
          {{"of", 0},
           {"begin", "3"},
           {"rows", "3"},
           {"times", "2"},
           {"step", "6"},
           {"block", "12"}},
          {{"of", 1}, {"rows", "6"}}}}};
    json["weights"][1]["shape"][0][0] = "2 * hidden_size";
    const auto tensors = [&] {
        const Family family = parse_family(json.dump(), "toy.json").value();
        return native_tensors(family, native_config(family, sizes()).value());
    };
    const auto made = tensors();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)[1].groups, 2);
    EXPECT_EQ((*made)[1].shape[0], 36);
    EXPECT_EQ((*made)[1].strands[1].begin, 3);
    json["weights"][1]["strands"][2]["rows"] = "5";
    EXPECT_NE(tensors().error().message.find("no part of the tensor contains row 10 of h.0.k"),
              std::string::npos);
    json["weights"][1]["strands"][2]["rows"] = "7";
    EXPECT_NE(tensors().error().message.find("ends at row 14"), std::string::npos);
}

TEST(Model, RulesOfTowersAreRepeated) {
    Json json = Json::parse(kFamily);
    json["weights"][0] = {{"native", "tower.{block}.{part}"},
                          {"hf", "t.{part}.{block}"},
                          {"shape", {"hidden_size"}},
                          {"stage", "first"},
                          {"add", -1},
                          {"repeat", {{"block", "hf.depth"}, {"part", "hf.list"}}}};
    const Family family = parse_family(json.dump(), "toy.json").value();
    Json config = sizes();
    config["depth"] = 3;
    config["list"] = {5, 9};
    const auto tensors = native_tensors(family, native_config(family, config).value(), config);
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_EQ((*tensors)[5].name, "tower.2.1");
    EXPECT_EQ((*tensors)[5].sources[0].name, "t.1.2");
    EXPECT_EQ((*tensors)[5].add, -1);
    EXPECT_EQ((*tensors)[6].name, "decoder.layers.0.qkv");
}

TEST(Model, CompletesSizesAndRefusesUnknownKeys) {
    const Json config = complete_hf_config(toy(), sizes()).value();
    EXPECT_EQ(config["model_type"], "toy");
    EXPECT_EQ(config["rope"]["theta"], 100.0);
    Json alike = sizes();
    alike.erase("n_kv");
    EXPECT_EQ(complete_hf_config(toy(), alike).value()["n_kv"], 4) << "as many as query heads";
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
