#include "worker/agent/core/heartbeat_grid.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

using namespace std::chrono_literals;

TEST(HeartbeatGrid, IsTheWallClocksAndNeverLate) {
    for (auto due = 70'000ms; due < 71'000ms; due += 7ms) {
        const auto at = on_heartbeat_grid(due, 123ms, 5000ms);
        EXPECT_LE(at, due);
        EXPECT_GT(at, due - kHeartbeatGrid);
        EXPECT_EQ((at + 123ms) % kHeartbeatGrid, 0ms);
    }
}

// Each worker wakes up a little late. Its next heartbeat is due one period after the grid point,
// not after the wake-up.
TEST(HeartbeatGrid, WhatIsOnItStaysAtItsPeriod) {
    auto at = on_heartbeat_grid(70'321ms, 123ms, 1000ms);
    for (int i = 0; i < 5; ++i) {
        const auto next = on_heartbeat_grid(at + 3ms + 1000ms, 123ms, 1000ms);
        EXPECT_EQ(next, at + 1000ms);
        at = next;
    }
}

TEST(HeartbeatGrid, ShortPeriodsAreAsTheyAre) {
    EXPECT_EQ(on_heartbeat_grid(70'321ms, 123ms, 200ms), 70'321ms);
}

}  // namespace
}  // namespace roll::agent
