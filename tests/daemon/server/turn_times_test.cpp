#include "daemon/server/turn_times.hpp"

#include <gtest/gtest.h>

namespace roll::server {
namespace {

using namespace std::chrono_literals;

TEST(Durations, TellTheLongestAndThatOneInAHundredIsLonger) {
    Durations durations;
    EXPECT_EQ(durations.json()["count"], 0);
    for (int i = 0; i < 980; ++i) durations.add(1ms);
    for (int i = 0; i < 20; ++i) durations.add(50ms);
    durations.add(70ms);
    const Json json = durations.json();
    EXPECT_EQ(json["count"], 1001);
    EXPECT_DOUBLE_EQ(json["longest_ms"].get<double>(), 70);
    EXPECT_GE(json["p99_ms"].get<double>(), 50);
    EXPECT_LE(json["p99_ms"].get<double>(), 50 * 1.1);  // the width of a bucket is a tenth
}

TEST(Durations, TellTheirSumAndTheLongestOfTheLastHundred) {
    Durations durations;
    EXPECT_EQ(durations.json()["recent_longest_ms"], 0);
    durations.add(70ms);
    for (int i = 0; i < 99; ++i) durations.add(2ms);
    EXPECT_DOUBLE_EQ(durations.json()["recent_longest_ms"].get<double>(), 70);
    durations.add(3ms);
    EXPECT_DOUBLE_EQ(durations.json()["recent_longest_ms"].get<double>(), 3);
    EXPECT_DOUBLE_EQ(durations.json()["longest_ms"].get<double>(), 70);
    EXPECT_DOUBLE_EQ(durations.json()["seconds"].get<double>(), 0.271);
}

TEST(Durations, OnesBeyondTheBucketsAreCountedInTheFirstAndTheLast) {
    Durations durations;
    for (int i = 0; i < 999; ++i) durations.add(0ns);
    durations.add(100h * 24);
    const Json json = durations.json();
    EXPECT_EQ(json["count"], 1000);
    EXPECT_LE(json["p99_ms"].get<double>(), 0.0011);
    EXPECT_DOUBLE_EQ(json["longest_ms"].get<double>(), 100.0 * 24 * 3600 * 1000);
}

TEST(Latencies, EachBucketCountsAllDurationsUpToItsLimit) {
    Latencies latencies;
    for (const auto took : {-5ms, 1ms, 2ms, 3ms}) latencies.add(took);
    latencies.add(48h);
    const Json json = latencies.json();
    EXPECT_EQ(json["count"], 5);
    EXPECT_DOUBLE_EQ(json["seconds"].get<double>(), 0.006 + 48 * 3600);
    EXPECT_EQ(json["buckets"][0], Json({{"le", 0.001}, {"count", 2}}));
    EXPECT_EQ(json["buckets"][1], Json({{"le", 0.002}, {"count", 3}}));
    EXPECT_EQ(json["buckets"][2], Json({{"le", 0.005}, {"count", 4}}));
    EXPECT_EQ(json["buckets"].back(), Json({{"le", 86400.0}, {"count", 4}}));
}

}  // namespace
}  // namespace roll::server
