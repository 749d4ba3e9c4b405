#include "common/spec/schema/units.hpp"

#include <gtest/gtest.h>

namespace roll::spec {
namespace {

TEST(Duration, ReadsWhatPeopleWrite) {
    const std::vector<std::pair<const char*, int>> cases = {
        {"90s", 90},      {"1h 30m", 5400},       {"1h30m", 5400},  {"1.5h", 5400},
        {"2d", 172800},   {"1-12:00:00", 129600}, {"00:01:30", 90}, {"100:00:00", 360000},
        {"1-12", 129600}, {"1-12:30", 131400},    {"0.5s", 1},      {"1w", 604800}};
    for (const auto& [text, seconds] : cases) {
        const auto read = parse_duration(text);
        ASSERT_TRUE(read) << text;
        EXPECT_EQ(read->count(), seconds) << text;
    }
}

TEST(Duration, RefusesWhatIsAmbiguousOrWrong) {
    for (const char* text : {"", "90", "1:30", "h", "1x", "-5s", "1h 30", "1e3s", "9999999w"}) {
        EXPECT_FALSE(parse_duration(text)) << text;
    }
    EXPECT_EQ(parse_duration("90").error().message,
              "\"90\" is not a duration; allowed: 90s, 1h 30m, 1-12:00:00 (days), HH:MM:SS");
}

TEST(Size, ReadsDecimalAndBinaryUnits) {
    EXPECT_EQ(*parse_size("512MiB"), 512u << 20);
    EXPECT_EQ(*parse_size("5GB"), 5000000000u);
    EXPECT_EQ(*parse_size("100"), 100u);
    EXPECT_EQ(*parse_size("1.5 kB"), 1500u);
    EXPECT_EQ(*parse_size("4G"), 4ull << 30) << "as in Slurm";
    EXPECT_EQ(*parse_size("1.5K"), 1536u);
    for (const char* text : {"", "GB", "G", "5Gi", "5GBs", "-1B", "99999999T"}) {
        EXPECT_FALSE(parse_size(text)) << text;
    }
}

}  // namespace
}  // namespace roll::spec
