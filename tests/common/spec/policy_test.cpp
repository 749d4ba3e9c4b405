#include "common/spec/job/policy.hpp"

#include <gtest/gtest.h>

#include "common/spec/check/parse_policy.hpp"

namespace roll::spec {
namespace {

TEST(Policy, ReadsEveryKey) {
    const ParsedPolicy parsed = parse_policy(R"({
        "scheduling": {"backfill": false, "starve_after": "1h"},
        "fair_share": {"half_life": "7d"},
        "preemption": {"min_run": "5m"},
        "gang": {"slurm_variables": true},
        "accounts": {"lab": {"gpus": 8, "borrow_gpus": 4, "share": 3, "users": ["ann"]},
                     "team": {"parent": "lab", "gpu_hours": 100, "slots": 4, "borrow_slots": 1}},
        "users": {"*": {"jobs": 100}, "ann": {"share": 2}}})");
    ASSERT_TRUE(parsed.problems.empty());
    const Policy& policy = parsed.policy;
    EXPECT_FALSE(policy.backfill);
    EXPECT_EQ(policy.starve_after, std::chrono::hours(1));
    EXPECT_EQ(policy.half_life, std::chrono::hours(7 * 24));
    EXPECT_TRUE(policy.preempt);
    EXPECT_TRUE(policy.gang_slurm_variables);
    EXPECT_EQ(policy.min_run, std::chrono::minutes(5));
    EXPECT_EQ(policy.accounts.at("lab").quota.borrow_gpus, 4);
    EXPECT_EQ(policy.accounts.at("team").quota.gpu_hours, 100);
    EXPECT_EQ(policy.accounts.at("team").parent, "lab");
    EXPECT_EQ(default_account(policy, "ann"), "lab");
    EXPECT_EQ(default_account(policy, "bob"), "");
    EXPECT_EQ(policy_of(policy, "bob").quota.jobs, 100);
    EXPECT_EQ(policy_of(policy, "ann").share, 2);
    EXPECT_EQ(policy_from_json(to_json(policy)).value(), policy);
}

TEST(Policy, OfAnEmptyFileIsTheDefault) {
    for (const char* text : {"{}", "null"}) EXPECT_EQ(parse_policy(text).policy, Policy{});
}

TEST(Policy, NamesWhatIsWrong) {
    const auto path = [](const char* text) {
        const auto problems = parse_policy(text).problems;
        return problems.empty() ? "" : problems.front().path;
    };
    EXPECT_EQ(path(R"({"scheduling": {"starve_after": 5}})"), "scheduling.starve_after");
    EXPECT_EQ(path(R"({"fair_share": {}})"), "fair_share.half_life");
    EXPECT_EQ(path(R"({"accounts": {"a": {"gpu": 1}}})"), "accounts.a.gpu");
    EXPECT_EQ(path(R"({"accounts": {"a": {"parent": "b"}}})"), "accounts.a.parent");
    EXPECT_EQ(path(R"({"accounts": {"a": {"parent": "b"}, "b": {"parent": "a"}}})"),
              "accounts.a.parent");
    EXPECT_EQ(path(R"({"accounts": {"a": {"parent": "b"}, "b": {"parent": "b"}}})"),
              "accounts.b.parent");
    const auto unknown = parse_policy(R"({"accounts": {"a": {"parent": "b"}, "b": {"parent": "x"},
                                          "c": {"parent": "b"}}})");
    ASSERT_EQ(unknown.problems.size(), 1u) << "descendants of a wrong account are no problems";
    EXPECT_EQ(unknown.problems[0].path, "accounts.b.parent");
    EXPECT_EQ(path(R"({"accounts": {"a": {"gpus": -1}}})"), "accounts.a.gpus");
}

}  // namespace
}  // namespace roll::spec
