// Single allocations that the operator closes or cancels.
#include <gtest/gtest.h>

#include "tests/daemon/core/site.hpp"

namespace roll::core {
namespace {

TEST(Release, AClosedAllocationWhenItsLastJobHasEnded) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    EXPECT_EQ(site.tell(CloseAllocation{AllocationId{1}, "ann"}).size(), 1U);
    EXPECT_TRUE(site.tell(CloseAllocation{AllocationId{1}, "ann"}).empty());
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Starting) << "its job runs on";
    const JobId next = site.submit(wants(1, 1, 1));
    EXPECT_EQ(site.job(next).phase, JobPhase::Queued) << "no further job starts there";
    EXPECT_TRUE(site.has(2)) << "the next job gets another allocation";
    EXPECT_FALSE(site.at(1).releasing);
    site.exit(job, Outcome::Done);
    EXPECT_TRUE(site.at(1).releasing);
    EXPECT_EQ(site.at(1).reason, "the allocation was closed by a user");
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
    EXPECT_EQ(site.queue().failures, 0);
}

TEST(Release, AClosedAllocationThatSlurmHasNotGrantedAtOnce) {
    Site site;
    site.submit(wants(1, 1, 8));
    site.accept(1);
    site.tell(CloseAllocation{AllocationId{1}});
    EXPECT_TRUE(site.at(1).releasing);
    site.see(1, SlurmPhase::Ended, "CANCELLED");
    EXPECT_EQ(site.queue().failures, 0);
    EXPECT_TRUE(site.has(2)) << "the job still waits";
}

TEST(Release, ACancelledAllocationWhoseJobsGoOnElsewhere) {
    Site site;
    const JobId job = site.submit(wants(1, 1, 8));
    site.accept(1);
    site.pilot_comes(1, "n1");
    site.tell(CancelAllocation{AllocationId{1}, "ann"});
    EXPECT_EQ(site.job(job).attempt->phase, AttemptPhase::Stopping);
    EXPECT_EQ(site.at(1).reason, "cancelled by ann");
    EXPECT_TRUE(site.tell(CancelAllocation{AllocationId{1}, "ann"}).empty());
    EXPECT_TRUE(site.tell(CloseAllocation{AllocationId{1}, "ann"}).empty());
    site.exit(job, Outcome::Yielded, 75);
    EXPECT_TRUE(site.owes<GiveBackAllocation>(1));
    EXPECT_TRUE(site.has(2));
    EXPECT_EQ(site.job(job).infra_failures, 0);
    EXPECT_EQ(site.refusal(CancelAllocation{AllocationId{9}}).code, ErrorCode::NotFound);
    EXPECT_EQ(site.refusal(CloseAllocation{AllocationId{9}}).code, ErrorCode::NotFound);
}

}  // namespace
}  // namespace roll::core
