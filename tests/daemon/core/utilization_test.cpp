// min_utilization: an allocation that would be used too little is not ordered.
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
    site.submit(wants(1, 1, 1));  // uses 6 of 8 slots
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, IsThatOfGpusOrOfSlots) {
    Site site(thrifty_queue(75));
    site.submit(wants(1, 5, 1));
    EXPECT_EQ(site.alive(), 0U);
    site.submit(wants(1, 1, 0));  // uses 6 of 8 slots, and 1 of 8 GPUs
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, CountsPartsOfGpus) {
    Site site(thrifty_queue(50));
    spec::JobSpec half = wants(1, 1, 1);
    half.resources.gpu_percent = 50;
    for (int i = 0; i < 3; ++i) site.submit(half);  // uses 3 slots, and one and a half GPUs
    EXPECT_EQ(site.alive(), 0U);
    site.submit(half);  // uses 4 of 8 slots
    EXPECT_EQ(site.alive(), 1U);
}

TEST(Utilization, OfEachOrderNotOfAll) {
    Site site(thrifty_queue(100));
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    for (int i = 0; i < 11; ++i) site.submit(wants(1, 1, 1));
    // 8 of the 11 jobs fill the second allocation; the others wait for more jobs
    EXPECT_EQ(site.alive(), 2U);
    for (int i = 0; i < 5; ++i) site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.alive(), 3U);
}

// Jobs of 5 and 3 GPUs fill an allocation; a job of 5 GPUs alone does not. When the simulation
// drops the order for the second job of 5, the job of 3 that it placed there must be placed
// elsewhere.
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
    site.submit(wants(3, 1, 8));  // uses 3 of 4 nodes
    EXPECT_EQ(site.alive(), 3U);
    site.submit(wants(5, 1, 1));  // uses the free node, and would use an eighth of two more orders
    EXPECT_EQ(site.alive(), 3U);
}

// A gang whose order is not made keeps no idle nodes.
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
