#include "common/json_text.hpp"

#include <gtest/gtest.h>

namespace roll {
namespace {

TEST(JsonText, IsWhatDumpMakesOfTheSameObject) {
    const std::string text = "a \"quote\", a \\, a line\n and \xff no UTF-8, \xc3\xa4";
    const JsonText inner = JsonText().add("z", true).add("a", -5);
    const std::string written = JsonText()
                                    .add("text", text)
                                    .add("list", std::vector<int>{1, 2})
                                    .add("none", std::vector<std::string>{})
                                    .add("inner", inner)
                                    .add("inners", std::vector<JsonText>{inner, JsonText()})
                                    .add("json", Json{{"x", nullptr}})
                                    .add("most", ~std::uint64_t{0})
                                    .add("least", std::int64_t{-1} << 63)
                                    .text();
    const Json same = {{"text", text},
                       {"list", {1, 2}},
                       {"none", Json::array()},
                       {"inner", {{"a", -5}, {"z", true}}},
                       {"inners", {{{"a", -5}, {"z", true}}, Json::object()}},
                       {"json", {{"x", nullptr}}},
                       {"most", ~std::uint64_t{0}},
                       {"least", std::int64_t{-1} << 63}};
    EXPECT_EQ(written, dump(same));
}

}  // namespace
}  // namespace roll
