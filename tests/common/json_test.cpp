#include "common/json.hpp"

#include <gtest/gtest.h>

namespace roll {
namespace {

TEST(JsonReader, NamesTheFirstMissingField) {
    const Json json = {{"a", 1}};
    JsonReader reader(json, "thing");
    EXPECT_EQ(reader.get<int>("a"), 1);
    reader.get<std::string>("b");
    const auto finished = reader.finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().message, "thing: needs a field b");
}

TEST(JsonReader, RefusesUnknownFieldsUnlessLenient) {
    const Json json = {{"a", 1}, {"z", 2}};
    JsonReader reader(json, "thing");
    reader.get<int>("a");
    EXPECT_TRUE(reader.finish_lenient());
    EXPECT_EQ(reader.finish().error().message, "thing: unknown field z");
}

TEST(ParseJson, RefusesANumberOutOfRange) {
    const auto parsed = parse_json(R"({"x": 1e999})");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().message, "the JSON contains a number that is out of range");
}

TEST(ParseJson, RefusesDeepNesting) {
    EXPECT_FALSE(parse_json(std::string(200, '[') + std::string(200, ']')));
    EXPECT_TRUE(parse_json("[[1]]"));
}

}  // namespace
}  // namespace roll
