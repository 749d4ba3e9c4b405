#include "worker/agent/core/lease.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

using std::chrono::seconds;

const LeaseRules kRules;

Look look(std::uint64_t incarnation, std::uint64_t counter, Instant at, Millis took = {}) {
    return {.incarnation = incarnation, .counter = counter, .began = at - took, .ended = at};
}

TEST(Bound, CountsFromTheSendingOfTheEchoedHeartbeat) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    EXPECT_EQ(bound.at(seconds(103)), seconds(3));
    bound.answered(seconds(102), 0, 1, 52, kRules);
    EXPECT_EQ(bound.at(seconds(110)), seconds(8));
    EXPECT_EQ(bound.lease_ends(kRules), seconds(117));
    EXPECT_EQ(bound.killed_at(kRules), seconds(132));
}

TEST(Bound, AddsWhatRolldHadCountedByThen) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    bound.answered(seconds(112), 10, 1, 60, kRules);
    EXPECT_EQ(bound.at(seconds(113)), seconds(11));
}

TEST(Bound, AnOldAnswerThatComesLateRenewsNothing) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    bound.answered(seconds(90), 0, 1, 50, kRules);
    EXPECT_EQ(bound.at(seconds(101)), seconds(1));
}

TEST(Bound, ABeaconThatStandsStillKeepsItSmallForHours) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    for (seconds now(105); now < seconds(100) + std::chrono::hours(10); now += seconds(5))
        bound.looked(look(1, 51, now), kRules);
    EXPECT_EQ(bound.at(seconds(100) + std::chrono::hours(10)), seconds(2 + 4 + 5));
}

TEST(Bound, ABeaconThatGrowsLetsItGrow) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    for (int i = 1; i <= 20; ++i) bound.looked(look(1, 50 + i, seconds(100 + i)), kRules);
    EXPECT_EQ(bound.at(seconds(120)), seconds(20));
}

TEST(Bound, ALookCountsAsOldAsItsDuration) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    bound.looked(look(1, 50, seconds(130), seconds(7)), kRules);
    EXPECT_EQ(bound.at(seconds(130)), seconds(1 + 4 + 7));
}

TEST(Bound, MoreBeatsThanThisClockSawAreBelieved) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    bound.looked(look(1, 80, seconds(101)), kRules);
    EXPECT_EQ(bound.at(seconds(101)), seconds(30));
}

TEST(Bound, ABeaconInDoubtLowersNothingAndRaisesIt) {
    SilenceBound bound(seconds(100), 0, 1, 50, kRules);
    bound.doubted(look(1, 51, seconds(110)), kRules);
    EXPECT_EQ(bound.at(seconds(110)), seconds(10));
    bound.doubted(look(1, 80, seconds(111)), kRules);
    EXPECT_EQ(bound.at(seconds(111)), seconds(30));
    bound.doubted(look(2, 33, seconds(111)), kRules);
    EXPECT_EQ(bound.at(seconds(111)), seconds(33)) << "a newer one counts from its first beat";
}

TEST(Bound, ANewerIncarnationCountsFromItsFirstBeat) {
    SilenceBound bound(seconds(101), 0, 1, 5000, kRules);
    bound.looked(look(2, 3, seconds(130)), kRules);
    EXPECT_EQ(bound.at(seconds(130)), seconds(3 + 1 + 4));
    bound.looked(look(2, 9, seconds(136)), kRules);
    EXPECT_EQ(bound.at(seconds(136)), seconds(9 + 1 + 4));
}

TEST(Bound, ANewerIncarnationRevivesNothingThatAnOlderMayHaveGivenAway) {
    // the whole machine, together with the old rolld, stood still before the look
    SilenceBound bound(seconds(100), 0, 1, 5000, kRules);
    bound.looked(look(2, 3, seconds(130)), kRules);
    EXPECT_EQ(bound.at(seconds(130)), seconds(30));
    EXPECT_EQ(bound.killed_at(kRules), seconds(130));
}

TEST(Bound, AnOlderIncarnationIsNoEvidence) {
    SilenceBound bound(seconds(100), 0, 2, 0, kRules);
    // a look that shows much silence, and one that shows almost none
    for (const std::uint64_t counter : {9000u, 0u}) {
        bound.looked(look(1, counter, seconds(110)), kRules);
        EXPECT_EQ(bound.at(seconds(110)), seconds(10)) << counter;
    }
}

}  // namespace
}  // namespace roll::agent
