#include "worker/agent/host/cpus.hpp"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"
#include "worker/agent/host/gpu_room.hpp"
#include "worker/agent/host/gpu_watch.hpp"
#include "worker/agent/host/nvml.hpp"
#include "worker/agent/host/self_check.hpp"

namespace roll::agent {
namespace {

using Ints = std::vector<int>;

// Two sockets of four cores with two hardware threads each. Linux numbers the first threads 0-7,
// then the second threads of the same cores.
std::vector<Cpu> two_sockets() {
    std::vector<Cpu> cpus;
    for (int id = 0; id < 16; ++id) cpus.push_back({id, id % 8, id % 8 / 4});
    return cpus;
}

TEST(CpuList, ReadsRangesAndLeavesOutWhatIsNone) {
    EXPECT_EQ(parse_cpu_list("0-2,8,10-11"), (Ints{0, 1, 2, 8, 10, 11}));
    EXPECT_EQ(parse_cpu_list(""), Ints{});
    EXPECT_EQ(parse_cpu_list("x,3,4-y"), Ints{3});
}

TEST(Quota, IsRoundedUpToWholeCpus) {
    EXPECT_EQ(cpus_of_quota("max 100000\n"), 0);
    EXPECT_EQ(cpus_of_quota("250000 100000"), 3);
    EXPECT_EQ(cpus_of_quota("5000 100000"), 1);
    EXPECT_EQ(cpus_of_quota("junk"), 0);
}

// With Slurm's task/none, every task sees the whole node, whatever it was granted.
TEST(Grant, CountsWhatSlurmGaveAndNotWhatTheNodeHas) {
    const std::vector<std::string> slurm = {"SLURM_CPUS_ON_NODE=8", "SLURM_CPUS_PER_TASK=8"};
    EXPECT_EQ(granted_cpus(128, {}), (Grant{128, false}));
    EXPECT_EQ(granted_cpus(128, slurm), (Grant{8, false}));
    EXPECT_EQ(granted_cpus(8, slurm), (Grant{8, true}));
    EXPECT_EQ(granted_cpus(2, slurm), (Grant{2, false}));
}

TEST(Grant, AnExclusiveNodeIsItsOwnAndBindingCanBeTurnedOff) {
    const std::vector<std::string> whole = {"SLURM_CPUS_ON_NODE=128", "SLURM_CPUS_PER_TASK=8"};
    EXPECT_EQ(granted_cpus(128, whole), (Grant{128, true}));
    std::vector<std::string> unbound = whole;
    unbound.emplace_back("ROLL_CPU_BINDING=none");
    EXPECT_FALSE(granted_cpus(128, unbound).own);
    EXPECT_EQ(granted_cpus(128, {"ROLL_CPU_BINDING=slots"}), (Grant{128, true})) << "no Slurm";
}

TEST(Shares, KeepCoresAndSocketsTogether) {
    const auto shares = share_cpus(two_sockets(), 4, {});
    EXPECT_EQ(shares,
              (std::vector<Ints>{{0, 8, 1, 9}, {2, 10, 3, 11}, {4, 12, 5, 13}, {6, 14, 7, 15}}));
    EXPECT_EQ(share_cpus(two_sockets(), 3, {})[2].size(), 5U);
    EXPECT_TRUE(share_cpus(two_sockets(), 17, {}).empty());
}

TEST(Shares, AreNearTheGpuThatTheSlotGoesWith) {
    const Ints first = {0, 1, 2, 3, 8, 9, 10, 11};
    const Ints second = {4, 5, 6, 7, 12, 13, 14, 15};
    const auto crossed = share_cpus(two_sockets(), 2, {second, first});
    EXPECT_EQ(crossed[0], (Ints{4, 12, 5, 13, 6, 14, 7, 15}));
    EXPECT_EQ(crossed[1], (Ints{0, 8, 1, 9, 2, 10, 3, 11}));
    // The CPUs near the first slot's GPU are unknown. The first slot therefore gets the CPUs that
    // the second slot leaves.
    const auto one = share_cpus(two_sockets(), 2, {{}, first});
    EXPECT_EQ(one[1], (Ints{0, 8, 1, 9, 2, 10, 3, 11}));
    EXPECT_EQ(one[0][0], 4);
}

TEST(MachineCpus, AreReadFromSys) {
    const TemporaryFolder sys;
    for (const int id : {1, 5}) {
        const auto folder = sys / "devices/system/cpu" / ("cpu" + std::to_string(id));
        std::filesystem::create_directories(folder / "topology");
        std::filesystem::create_directories(folder / "node3");
        std::ofstream(folder / "topology/thread_siblings_list") << "1,5\n";
    }
    EXPECT_EQ(machine_cpus({1, 5, 9}, sys), (std::vector<Cpu>{{1, 1, 3}, {5, 1, 3}, {9, 9, 0}}));
}

// Uses fake_nvml.cpp: two GPUs on CPUs 0-1 and 64-65, the second with a MIG instance.
TEST(Nvml, FindsGpusByIndexUuidAndMigInstance) {
    EXPECT_EQ(count_gpus(), 2);
    const auto near = cpus_near_gpus({"0", "GPU-1", "MIG-1", "7", "GPU-none"});
    EXPECT_EQ(near, (std::vector<Ints>{{0, 1}, {64, 65}, {64, 65}, {}, {}}));
    EXPECT_EQ(used_gpu_memory({"1", "MIG-1", "GPU-none"}), (std::vector<std::int64_t>{10, 3, 0}));
}

TEST(Nvml, TellsWhoHoldsAGpuAndWhatIsWrongWithOne) {
    std::string held = "/tmp/roll-nvml-XXXXXX";
    ::close(::mkstemp(held.data()));
    ::setenv("FAKE_NVML_HELD", held.c_str(), 1);
    const std::vector<GpuRoom> room = {{"0", 512 << 20}, {"1", 512 << 20}};
    EXPECT_EQ(text_of(held_gpus(room)),
              "GPU 0 has 3072 MiB in use (512 MiB at most): process 4711 3072 MiB");
    std::filesystem::remove(held);
    EXPECT_TRUE(held_gpus(room).empty());
    EXPECT_TRUE(held_gpus({{"1", 10}}).empty()) << "as much as may be";
    const std::vector<HeldGpu> more = held_gpus({{"0", 10}, {"1", 9}});
    ASSERT_EQ(more.size(), 1U);
    EXPECT_EQ(more[0].room.name, "1");
    EXPECT_EQ(more[0].used_bytes, 10);
    EXPECT_TRUE(held_gpus({{"7", 0}}).empty()) << "none that it can tell of";
    ::unsetenv("FAKE_NVML_HELD");
    EXPECT_EQ(gpu_fault("GPU-0"), "");
    const std::string fault = "has had 2 uncorrected memory errors since its driver was loaded";
    EXPECT_EQ(gpu_fault("GPU-1"), fault);
    EXPECT_EQ(gpu_fault("MIG-1"), fault) << "of the GPU that it is a part of";
}

TEST(Nvml, TellsHowBusyGpusAre) {
    EXPECT_EQ(gpu_meter({"0", "GPU-1", "MIG-1", "7"})(), (Ints{37, 90, -1, -1}));
    EXPECT_FALSE(gpu_meter({}));
    const GpuWatch watch(gpu_meter({"0", "1"}));
    for (int i = 0; i < 500 && watch.use().empty(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(watch.use(), (Ints{37, 90}));
    EXPECT_TRUE(GpuWatch().use().empty());
}

TEST(Nvml, TellsTheNvlinkDomainThatNodesShare) {
    EXPECT_EQ(nvlink_domain("GPU-0"), "");
    EXPECT_EQ(nvlink_domain("GPU-1"), "nvl-000102030405060708090a0b0c0d0e0f-3");
    EXPECT_EQ(nvlink_domain("MIG-1"), nvlink_domain("GPU-1"));
    EXPECT_EQ(nvlink_domain("7"), "");
}

TEST(NodeCheck, NamesTheFirstThingThatIsWrong) {
    NodeNeeds needs{.directory = "/tmp", .gpus = 2, .names = {"GPU-0"}};
    const auto fit = check_node(needs);
    EXPECT_TRUE(fit) << fit.error().message;
    needs.names.emplace_back("1");
    EXPECT_NE(check_node(needs).error().message.find("GPU 1 has had 2"), std::string::npos);
    needs = {.directory = "/tmp", .links = {"no-such-link"}};
    EXPECT_EQ(check_node(needs).error().message,
              "network link no-such-link is down; it was up when roll-worker started");
    needs = {.directory = "/tmp", .gpus = 3};
    EXPECT_EQ(check_node(needs).error().message,
              "number of GPUs that NVML shows: 2; number that this worker offers: 3");
    EXPECT_FALSE(check_node({.directory = "/dev/null/x"}));
}

TEST(Links, ThatAreUpAreDevicesAndPorts) {
    const TemporaryFolder sys;
    const auto put = [&](const std::string& file, const char* text) {
        std::filesystem::create_directories((sys / file).parent_path());
        std::ofstream(sys / file) << text;
    };
    for (const char* one : {"eth0", "eth1", "docker0"})
        put(std::string("class/net/") + one + "/operstate", one[3] == '1' ? "down\n" : "up\n");
    for (const char* one : {"eth0", "eth1"})
        std::filesystem::create_directories(sys / "class/net" / one / "device");
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    EXPECT_EQ(links_up(sys), (std::vector<std::string>{"eth0", "mlx5_0/1"}));
    std::filesystem::remove_all(sys);
    EXPECT_TRUE(links_up(sys).empty());
}

TEST(GpuNuma, IsThatOfTheCpusNearIt) {
    const std::vector<Cpu> cpus = {{0, 0, 0}, {1, 1, 0}, {2, 2, 1}};
    EXPECT_EQ(numa_of_gpus(cpus, {{0, 1}, {2}, {1}}), (std::vector{0, 1, 0}));
    EXPECT_TRUE(numa_of_gpus(cpus, {{0}, {}}).empty()) << "of one it is not known";
}

}  // namespace
}  // namespace roll::agent
