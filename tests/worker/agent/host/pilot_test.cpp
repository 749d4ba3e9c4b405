#include "worker/agent/host/pilot.hpp"

#include <gtest/gtest.h>

namespace roll::agent {
namespace {

using Names = std::vector<std::string>;

TEST(GivenGpus, AreWhatCudaWouldSee) {
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES=2,3"}), (Names{"2", "3"}));
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES=GPU-5a,GPU-7b"}), (Names{"GPU-5a", "GPU-7b"}));
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES=MIG-1c"}), (Names{"MIG-1c"}));
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES=0,-1,1"}), (Names{"0"}));
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES=NoDevFiles"}), Names{});
    EXPECT_EQ(*given_gpus({"CUDA_VISIBLE_DEVICES="}), Names{});
}

// Inside a device cgroup CUDA's numbers start at 0, while Slurm's lists have the node's numbers.
TEST(GivenGpus, CudasNamesGoFirst) {
    EXPECT_EQ(*given_gpus({"SLURM_STEP_GPUS=4,5", "CUDA_VISIBLE_DEVICES=0,1"}), (Names{"0", "1"}));
    EXPECT_EQ(*given_gpus({"SLURM_JOB_GPUS=4,5,6", "SLURM_STEP_GPUS=5"}), (Names{"5"}));
    EXPECT_FALSE(given_gpus({"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES_X=1"}));
}

TEST(PilotNode, IsUniqueForEachAllocation) {
    EXPECT_EQ(pilot_node({"SLURMD_NODENAME=n3"}, "host", "c1.2.17"), "n3.a17");
    EXPECT_EQ(pilot_node({}, "host", "c1.2.17"), "host.a17");
}

TEST(MustLeave, BeforeTheEndThatIsKnown) {
    using std::chrono::seconds;
    const protocol::PilotNote pilot{"k", "7", 1000};
    EXPECT_FALSE(must_leave(pilot, seconds(120), seconds(879)));
    EXPECT_TRUE(must_leave(pilot, seconds(120), seconds(880)));
    EXPECT_FALSE(must_leave({"k", "7", 0}, seconds(120), seconds(880)));
}

TEST(Pilot, LiesInTheSegmentThatSlurmsTopologyNames) {
    EXPECT_EQ(segment_of({"SLURM_TOPOLOGY_ADDR=core.leaf3.gpu7"}, ""), "core.leaf3");
    EXPECT_EQ(segment_of({"SLURM_TOPOLOGY_ADDR=core.leaf3.gpu7"}, "nvl-1-2"), "core.leaf3.nvl-1-2");
    EXPECT_EQ(segment_of({"SLURM_TOPOLOGY_ADDR=gpu7"}, "nvl-1-2"), "nvl-1-2");
    EXPECT_EQ(segment_of({}, ""), "");
}

}  // namespace
}  // namespace roll::agent
