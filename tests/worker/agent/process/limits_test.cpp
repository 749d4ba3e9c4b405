// Tests Limiter on trees of plain files in place of cgroups. supervisor_test.cpp has the limits of
// this machine.
#include "worker/agent/process/limits.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

const AttemptKey kKey{.job = {7}, .token = {1, 2}};
constexpr AttemptLimits kLimits{.memory = 4LL << 30, .cpus = 3};

class Tree : public testing::Test {
  protected:
    Tree() {
        fs::create_directories(top_ / "proc");
        put("proc/cgroup", "9:memory:/user/a\n4:cpu,cpuacct:/b\n0::/user/c\n");
        put("proc/mountinfo", "");
    }
    void put(const fs::path& file, const std::string& text) const {
        fs::create_directories((top_ / file).parent_path());
        std::ofstream(top_ / file) << text;
    }
    std::string text(const fs::path& file) const { return read_file(top_ / file).value_or("-"); }
    // Adds a hierarchy of v1 with these controllers, mounted at `place`. Its cgroup `root` is the
    // root of the mount.
    void mount_v1(const std::string& place, const std::string& root, const std::string& list) {
        std::ofstream(top_ / "proc/mountinfo", std::ios::app)
            << "36 35 0:30 " << root << " " << (top_ / place).string()
            << " rw,relatime shared:9 - cgroup cgroup rw," << list << "\n";
    }
    Limiter choose(const fs::path& wall = {}) const {
        return Limiter::choose(wall.empty() ? wall : top_ / wall, "s1", top_ / "proc");
    }
    TemporaryFolder top_;
};

TEST_F(Tree, VersionTwoNeedsTheControllersOfTheCgroupAbove) {
    put("own/cgroup.controllers", "cpuset cpu io memory pids\n");
    put("own/cgroup.subtree_control", "cpu memory");
    put("own/roll-s1/cgroup.subtree_control", "");
    const Limiter limiter = choose("own/roll-s1");
    EXPECT_EQ(limiter.text(), "cgroup v2");
    EXPECT_TRUE(limiter.directories().empty());
    EXPECT_NE(text("own/roll-s1/cgroup.subtree_control").find("+"), std::string::npos);
    const fs::path attempt = top_ / "own/roll-s1/job-7.1-2";
    fs::create_directory(attempt);
    const auto groups = limiter.enclose(kKey, kLimits, attempt.string());
    ASSERT_TRUE(groups) << groups.error().message;
    EXPECT_EQ(groups->memory, attempt.string());
    EXPECT_EQ(groups->cpu, attempt.string());
    EXPECT_EQ(text("own/roll-s1/job-7.1-2/memory.max"), "4294967296");
    EXPECT_EQ(text("own/roll-s1/job-7.1-2/memory.swap.max"), "0");
    EXPECT_EQ(text("own/roll-s1/job-7.1-2/memory.oom.group"), "1");
    EXPECT_EQ(text("own/roll-s1/job-7.1-2/cpu.max"), "300000 100000");
}

TEST_F(Tree, AnAttemptWithoutLimitsHasNoCgroups) {
    put("own/cgroup.controllers", "cpu memory\n");
    put("own/cgroup.subtree_control", "cpu memory");
    const auto groups = choose("own/roll-s1").enclose(kKey, {}, (top_ / "x").string());
    ASSERT_TRUE(groups);
    EXPECT_EQ(groups->memory + groups->cpu, "");
    EXPECT_FALSE(fs::exists(top_ / "x"));
}

TEST_F(Tree, VersionOneIsUsedWhereVersionTwoHasNoControllers) {
    put("own/cgroup.controllers", "hugetlb\n");
    fs::create_directories(top_ / "memory/a");
    fs::create_directories(top_ / "cpu/b");
    mount_v1("memory", "/user", "memory");
    mount_v1("cpu", "/", "cpu,cpuacct");
    const Limiter limiter = choose("own/roll-s1");
    EXPECT_EQ(limiter.text(), "cgroup v1");
    ASSERT_EQ(limiter.directories(), (std::vector<std::string>{(top_ / "memory/a/roll-s1").string(),
                                                               (top_ / "cpu/b/roll-s1").string()}));
    const auto groups = limiter.enclose(kKey, kLimits, "");
    ASSERT_TRUE(groups) << groups.error().message;
    EXPECT_EQ(groups->memory, (top_ / "memory/a/roll-s1/job-7.1-2").string());
    EXPECT_EQ(text("memory/a/roll-s1/job-7.1-2/memory.limit_in_bytes"), "4294967296");
    EXPECT_EQ(text("cpu/b/roll-s1/job-7.1-2/cpu.cfs_quota_us"), "300000");
    EXPECT_EQ(text("cpu/b/roll-s1/job-7.1-2/cpu.cfs_period_us"), "100000");
}

TEST_F(Tree, WithoutControllersNothingIsEnforced) {
    EXPECT_EQ(choose().text(), "watched, not enforced");
    fs::create_directories(top_ / "memory/a");
    mount_v1("memory", "/user", "memory");
    EXPECT_EQ(choose().text(), "cgroup v1, cpus not enforced");
    const auto groups = Limiter().enclose(kKey, kLimits, "");
    ASSERT_TRUE(groups);
    EXPECT_EQ(groups->memory, "");
}

TEST_F(Tree, KillsArePeaksAndUseAreReadFromEitherVersion) {
    put("two/memory.events", "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n");
    put("two/memory.peak", "4096\n");
    put("two/memory.current", "2048\n");
    put("one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put("one/memory.max_usage_in_bytes", "8192\n");
    put("one/memory.usage_in_bytes", "1024\n");
    EXPECT_EQ(kills_for_memory(top_ / "two"), 1);
    EXPECT_EQ(kills_for_memory(top_ / "one"), 3);
    EXPECT_EQ(kills_for_memory(top_), 0);
    EXPECT_EQ(peak_memory(top_ / "two"), 4096);
    EXPECT_EQ(peak_memory(top_ / "one"), 8192);
    EXPECT_EQ(used_memory(top_ / "two"), 2048);
    EXPECT_EQ(used_memory(top_ / "one"), 1024);
}

}  // namespace
}  // namespace roll::agent
