// Slurm's variables of the processes of gangs.
#include <algorithm>

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include "worker/agent/process/launch.hpp"

namespace roll::agent {
namespace {

bool has_once(const Program& program, const std::string& variable) {
    return std::ranges::count(program.environment, variable) == 1;
}

protocol::StartOrder gang() {
    protocol::StartOrder order;
    order.attempt = {.job = {7}, .token = {3, 2}};
    order.kind = "command";
    order.document = R"({"name": "x", "command": ["a"], "env": {"SLURM_NNODES": "mine"}})";
    order.output = "/runs/a-7";
    order.node_rank = 1;
    order.nodes = 2;
    order.slots = {0, 3};
    order.tasks_per_node = 2;
    order.hosts = {"n1.a5", "n2.a5"};
    return order;
}

LaunchSite pilot_site() {
    LaunchSite site;
    site.programs = "/opt/roll/bin";
    site.environment = {"SLURM_JOB_ID=4711", "SLURMD_NODENAME=n2", "SLURM_PROCID=0"};
    site.node = "n2.a5";
    return site;
}

TEST(SlurmVariables, OfATaskAreThoseOfSrunIfTheSiteWantsThem) {
    protocol::StartOrder order = gang();
    const auto without = plan_launch(order, pilot_site());
    ASSERT_TRUE(without) << without.error().message;
    EXPECT_FALSE(has_once(without->programs.at(0), "SLURM_NTASKS=4"));
    order.slurm_variables = true;
    const auto plan = plan_launch(order, pilot_site());
    ASSERT_TRUE(plan) << plan.error().message;
    for (const char* variable :
         {"SLURM_PROCID=3", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_GTIDS=2,3",
          "SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_NTASKS_PER_NODE=2", "SLURM_NNODES=mine",
          "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_ID=7", "SLURM_JOBID=7", "SLURM_NODELIST=n1,n2",
          "SLURM_JOB_NODELIST=n1,n2", "SLURMD_NODENAME=n2", "SLURM_TASKS_PER_NODE=2(x2)",
          "SLURM_CPUS_ON_NODE=2", "SLURM_JOB_NAME=x", "SLURM_RESTART_COUNT=1",
          "ROLL_PILOT_SLURM_JOB_ID=4711"})
        EXPECT_TRUE(has_once(plan->programs.at(1), variable)) << variable;
    // The environment of this worker has no USER.
    const std::string user = std::string("SLURM_JOB_USER=") + ::getpwuid(::geteuid())->pw_name;
    EXPECT_TRUE(has_once(plan->programs.at(1), user)) << user;
    EXPECT_TRUE(has_once(plan->programs.at(0), "SLURM_PROCID=2"));
    EXPECT_TRUE(has_once(plan->programs.at(0), "RANK=2"));
}

}  // namespace
}  // namespace roll::agent
