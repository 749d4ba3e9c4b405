#include "daemon/query/progress.hpp"

#include <gtest/gtest.h>

namespace roll::query {
namespace {

TEST(Progress, IsSplitIntoWhatIsToldAndTheRanks) {
    const Progress progress = read_progress(
        R"({"step": 7, "gpu_percent": 31, "ranks": [{"rank": 2, "step": 7, "own_ms": 40}]})", "n1");
    EXPECT_EQ(progress.told, Json::parse(R"({"step": 7, "gpu_percent": 31})"));
    EXPECT_EQ(progress.ranks,
              Json::parse(R"([{"rank": 2, "node": "n1", "step": 7, "own_ms": 40}])"));
}

TEST(Progress, TheMemoryOfANodeIsARow) {
    const Progress progress = read_progress(
        R"({"step": 7, "memory": 5242880, "memory_curve": {"every_s": 4, "mebibytes": [9, 5]}})",
        "n1");
    EXPECT_EQ(progress.told, Json::parse(R"({"step": 7})"));
    EXPECT_EQ(progress.memory, Json::parse(R"([{"node": "n1", "bytes": 5242880, "every_s": 4,
                                                "mebibytes": [9, 5]}])"));
    for (const char* malformed :
         {R"("memory": 1)", R"("memory": "x", "memory_curve": {"every_s": 4, "mebibytes": [9]})",
          R"("memory": -1, "memory_curve": {"every_s": 4, "mebibytes": [9]})",
          R"("memory": 1, "memory_curve": {"every_s": 0, "mebibytes": [9]})",
          R"("memory": 1, "memory_curve": {"every_s": 4.5, "mebibytes": [9]})",
          R"("memory": 1, "memory_curve": {"every_s": 4, "mebibytes": [9, null]})",
          R"("memory": 1, "memory_curve": {"every_s": 4, "mebibytes": [1e300]})",
          R"("memory": 1, "memory_curve": {"every_s": 4, "mebibytes": 9})",
          R"("memory": 1, "memory_curve": [4]})"}) {
        const Progress left = read_progress(std::string(R"({"step": 1, )") + malformed + "}", "n1");
        EXPECT_TRUE(left.memory.empty()) << malformed;
        EXPECT_FALSE(left.told.contains("memory")) << malformed;
    }
}

TEST(Progress, TheProcessorTimeIsReadIfItIsANumber) {
    EXPECT_EQ(read_progress(R"({"cpu_ms": 2500})", "n1").cpu_ms, 2500);
    for (const char* malformed : {"-1", "1e300", "2.5", "null", "9223372036854775807", "[1]"}) {
        const std::string text = std::string(R"({"step": 1, "cpu_ms": )") + malformed + "}";
        const Progress left = read_progress(text, "n1");
        EXPECT_EQ(left.cpu_ms, 0) << malformed;
        EXPECT_EQ(left.told, Json::parse(R"({"step": 1})")) << malformed;
    }
}

TEST(Progress, WhatHasAnotherShapeIsLeftOut) {
    for (const char* ranks : {"8", "[1]", "[null]", "{\"a\": 1}", "\"x\"", "[[]]", "null",
                              R"([{"rank": 1, "step": 2, "own_ms": "slow"}])",
                              R"([{"rank": 1.5, "step": 2, "own_ms": 3}])"}) {
        const auto text = std::string(R"({"step": 1, "ranks": )") + ranks + "}";
        const Progress progress = read_progress(text, "n1");
        EXPECT_EQ(progress.told, Json::parse(R"({"step": 1})")) << ranks;
        EXPECT_TRUE(progress.ranks.empty()) << ranks;
    }
    const std::string deep = R"({"a": )" + std::string(50, '[') + std::string(50, ']') + "}";
    const std::string large = R"({"a": ")" + std::string(1u << 20, 'x') + "\"}";
    for (const std::string& text : {std::string(), std::string("["), std::string("8"), deep, large})
        EXPECT_TRUE(read_progress(text, "n1").told.empty());
}

}  // namespace
}  // namespace roll::query
