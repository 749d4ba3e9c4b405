#include "worker/agent/process/guard_plan.hpp"

#include <gtest/gtest.h>

#include "common/json.hpp"

namespace roll::agent {
namespace {

TEST(GuardPlan, ComesBackAsItWasSent) {
    GuardPlan plan;
    plan.programs.resize(2);
    plan.programs[1].cpus = {4, 5};
    plan.checks = {{plan.programs[0], 5, true}};
    plan.gang = Gang();
    plan.after = {plan.programs[0]};
    EXPECT_EQ(decode_guard_plan(encode(plan)).value(), plan);
    EXPECT_EQ(encode(plan).find('\n'), std::string::npos);
    const Verdict verdict{Outcome::Invalid, 127, "cannot run \"x\"\n"};
    EXPECT_EQ(decode_verdict(encode(verdict)).value(), verdict);
}

// After an upgrade of the package, an old roll-worker starts new guards.
TEST(GuardPlan, HasTheFormThatOlderWorkersSend) {
    GuardPlan plan;
    plan.memory = {4096, "/c"};
    plan.programs.resize(1);
    Json json = Json::parse(encode(plan));
    EXPECT_EQ(json["memory"], 4096);
    EXPECT_EQ(json["memory_cgroup"], "/c");
    EXPECT_TRUE(json.contains("gang") && json["gang"].is_null());
    // earlier versions did not send these
    for (const char* key : {"enter", "link"}) json["programs"][0].erase(key);
    for (const char* key : {"after", "cpu_cgroup"}) json.erase(key);
    EXPECT_EQ(decode_guard_plan(json.dump()).value(), plan);
}

}  // namespace
}  // namespace roll::agent
