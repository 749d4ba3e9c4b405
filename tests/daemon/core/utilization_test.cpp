// min_utilization: what would be used too little is not ordered.
#include "tests/daemon/core/site.hpp"

namespace roll::core {
namespace {

using namespace std::chrono_literals;

spec::PilotQueue thrifty_queue(int min_percent) {
    spec::PilotQueue queue = gpu_queue();
    queue.min_percent = min_percent;
    return queue;
}

TEST(Utilization, WaitsUntilTheJobsWouldUseEnough) {
    Site site(thrifty_queue(75));
    for (int i = 0; i < 5; ++i) site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 0U);
    site.submit(wants(1, 1, 1));  // 6 of 8
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, IsThatOfGpusOrOfSlots) {
    Site site(thrifty_queue(75));
    site.submit(wants(1, 5, 1));
    EXPECT_EQ(site.alive(), 0U);
    site.submit(wants(1, 1, 0));  // 6 of 8 slots, 1 of 8 GPUs
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, CountsPartsOfGpus) {
    Site site(thrifty_queue(50));
    spec::JobSpec half = wants(1, 1, 1);
    half.resources.gpu_percent = 50;
    for (int i = 0; i < 3; ++i) site.submit(half);  // 3 slots, one GPU and a half
    EXPECT_EQ(site.alive(), 0U);
    site.submit(half);  // 4 slots of 8
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, OfEachOrderNotOfAll) {
    Site site(thrifty_queue(100));
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    for (int i = 0; i < 11; ++i) site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 2U);  // 8 of the 11; the others wait for company
    for (int i = 0; i < 5; ++i) site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 3U);
}

// 5 and 3 fill one, 5 alone does not: the 3 must not be lost with the order that is not made.
TEST(Utilization, PlacesAnewWithoutTheOrderThatDoesNotPay) {
    Site site(thrifty_queue(100));
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.submit(wants(1, 1, 5));
    site.submit(wants(1, 1, 5));
    EXPECT_EQ(site.alive(), 1U);
    site.submit(wants(1, 1, 3));
    EXPECT_EQ(site.alive(), 2U);
}

TEST(Utilization, OfAGangsOrdersTogether) {
    spec::PilotQueue queue = thrifty_queue(75);
    queue.nodes = 2;
    Site site(queue);
    site.submit(wants(2, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.pilot_comes(1, "n2");
    site.submit(wants(3, 1, 8));  // 3 of 4 nodes
    EXPECT_EQ(site.alive(), 3U);
    site.submit(wants(5, 1, 1));  // one is left of those; two orders more for an eighth of them
    EXPECT_EQ(site.alive(), 3U);
}

// A gang whose order does not pay holds nothing idle.
TEST(Utilization, NothingIsKeptForWhatIsNotOrdered) {
    Site site(thrifty_queue(50));
    const JobId first = site.submit(wants(1, 1, 4));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.exit(first, Outcome::Done);
    site.submit(wants(2, 1, 1));
    EXPECT_EQ(site.alive(), 1U);
    site.pass(5min);
    EXPECT_TRUE(site.at(1).releasing);
}

TEST(Utilization, WhatIsOnOrderStays) {
    Site site(thrifty_queue(50));
    site.submit(wants(1, 1, 1));
    const JobId big = site.submit(wants(1, 1, 3));
    ASSERT_TRUE(site.has(1));
    site.accept(1);
    site.tell(Cancel{big, ""});
    EXPECT_FALSE(site.at(1).releasing);
}

}  // namespace
}  // namespace roll::core
