#include "common/yaml/yaml.hpp"

#include <gtest/gtest.h>

namespace roll::yaml {
namespace {

Json one(const std::string& text) {
    const auto values = read(text, "f.yaml");
    EXPECT_TRUE(values) << values.error().message;
    return values ? values->front() : Json();
}

std::string problem(const std::string& text) {
    const auto values = read(text, "f.yaml");
    return values ? "no problem" : values.error().message;
}

TEST(Yaml, TypesScalarsAsTheCoreSchemaDoes) {
    EXPECT_EQ(one("[3e-3, 12, -4, +7, 0.5, .5, 1., 0x1F, 0o17]"),
              Json::parse("[0.003, 12, -4, 7, 0.5, 0.5, 1.0, 31, 15]"));
    EXPECT_TRUE(one("3e-3").is_number_float());
    EXPECT_TRUE(one("12").is_number_integer());
    EXPECT_EQ(one("[true, False, yes, on, null, ~, '12', \"true\", 1:30:00, 1e, 0x]"),
              Json::parse(R"([true, false, "yes", "on", null, null, "12", "true", "1:30:00", "1e",
                              "0x"])"));
    EXPECT_EQ(one("a: {b: [1, {c: d}]}\nempty:\n"),
              Json::parse(R"({"a": {"b": [1, {"c": "d"}]}, "empty": null})"));
}

TEST(Yaml, ScalarsMayBeLong) {
    const std::string digits(300'000, '7');
    for (const std::string& text : {digits, "-" + digits, digits + ".5e3", digits + "x"})
        EXPECT_EQ(one("a: " + text)["a"], text);
    EXPECT_EQ(one("[+, -, ., e3, .e3, 1e+, --1, +.5, 1.e-2, 1_0]"),
              Json::parse(R"(["+", "-", ".", "e3", ".e3", "1e+", "--1", 0.5, 0.01, "1_0"])"));
}

TEST(Yaml, ReadsJsonAndSeveralDocuments) {
    EXPECT_EQ(one(R"({"a": [1, 2.5, "x", true, null]})"),
              Json::parse(R"({"a": [1, 2.5, "x", true, null]})"));
    const auto values = read("a: 1\n---\na: 2\n", "f.yaml");
    ASSERT_TRUE(values);
    EXPECT_EQ(*values, (std::vector<Json>{{{"a", 1}}, {{"a", 2}}}));
}

TEST(Yaml, UnfoldsAliases) {
    EXPECT_EQ(one("a: &x {n: 1}\nb: *x\n"), Json::parse(R"({"a": {"n": 1}, "b": {"n": 1}})"));
}

TEST(Yaml, NamesFileAndLineOfWhatIsWrong) {
    EXPECT_EQ(problem("a: 1\nb: 2\na: 3\n"), "f.yaml:3: duplicate key a");
    EXPECT_EQ(problem("a: &x {b: 1}\nc:\n  <<: *x\n"),
              "f.yaml:3: the merge key << is not supported; write the merged keys out");
    EXPECT_EQ(problem("a: 1\nb: [1, 2\nc: 3\n").substr(0, 7), "f.yaml:");
    EXPECT_NE(problem("a: 1\n\tb: 2\n").find("not YAML"), std::string::npos);
    EXPECT_EQ(problem("? [a]\n: 1\n"), "f.yaml:1: a key must be a scalar");
    EXPECT_EQ(problem(""), "f.yaml is empty");
}

TEST(Yaml, SaysWhereEachKeyStands) {
    const auto lines = key_lines("a: 1\nb:\n  - c: 2\n    d: {e: 3}\n---\nf: 4\n");
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0],
              (std::map<std::string, int>{
                  {"a", 1}, {"b", 2}, {"b[0]", 3}, {"b[0].c", 3}, {"b[0].d", 4}, {"b[0].d.e", 4}}));
    EXPECT_EQ(lines[1], (std::map<std::string, int>{{"f", 6}}));
    EXPECT_TRUE(key_lines("a: [").empty());
}

TEST(Yaml, RefusesAliasBombsAndDeepNesting) {
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
        bomb += fmt::format("a{0}: &a{0} [", i);
        for (int k = 0; k < 10; ++k) bomb += fmt::format("{}*a{}", k == 0 ? "" : ", ", i - 1);
        bomb += "]\n";
    }
    EXPECT_NE(problem(bomb).find("expand to too many"), std::string::npos);
    EXPECT_NE(problem(std::string(200, '[') + std::string(200, ']')), "no problem");
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += "{a: ";
    EXPECT_EQ(problem(deep), "f.yaml:1: nested too deeply");
}

TEST(Yaml, RefusesTextWithANul) {
    EXPECT_EQ(problem(std::string("a: 1\nb: x\0y\n", 12)),
              "f.yaml:2: has the character NUL, so it is not a text file");
}

}  // namespace
}  // namespace roll::yaml
