#include "common/spec/train/optimizer.hpp"

#include <gtest/gtest.h>

#include "common/spec/check/train_rules.hpp"

namespace roll::spec {
namespace {

OptimizerSpec read(const Json& json) {
    OptimizerSpec optimizer;
    EXPECT_TRUE(read_update_rule(json, optimizer));
    return optimizer;
}

TEST(OptimizerSpec, EachKindHasItsUsualMomentum) {
    EXPECT_EQ(read(Json::object()).kind, OptimizerKind::AdamW);
    for (const auto& [name, kind] : kOptimizerKinds) {
        const OptimizerSpec optimizer = read({{"kind", name}});
        EXPECT_EQ(optimizer.kind, kind);
        EXPECT_EQ(name_of(kind), name);
        EXPECT_EQ(optimizer.momentum, kind == OptimizerKind::Muon ? 0.95 : 0);
        EXPECT_EQ(optimizer.nesterov, kind == OptimizerKind::Muon);
    }
    OptimizerSpec unknown;
    EXPECT_FALSE(read_update_rule({{"kind", "lamb"}}, unknown));
}

TEST(OptimizerSpec, AGroupHasSeveralPatterns) {
    const OptimizerSpec optimizer = read(
        {{"groups", {{{"match", "a*|*b"}, {"lr", 1e-3}}, {{"match", "c"}, {"weight_decay", 0}}}}});
    ASSERT_EQ(optimizer.groups.size(), 2U);
    EXPECT_EQ(optimizer.groups[0].globs, (std::vector<std::string>{"a*", "*b"}));
    EXPECT_EQ(optimizer.groups[0].lr, 1e-3);
    EXPECT_EQ(optimizer.groups[0].weight_decay, std::nullopt);
    EXPECT_EQ(optimizer.groups[1].weight_decay, 0);
}

TEST(OptimizerSpec, RefusesWhatAKindDoesNotHave) {
    const std::vector<std::pair<Json, const char*>> cases = {
        {{{"momentum", 0.9}},
         "train.optimizer.momentum is 0.9, but kind adamw has no momentum; remove it, or use kind "
         "sgd, muon"},
        {{{"offload_fraction", 0.5}},
         "train.optimizer.offload_fraction is 0.5, but offload is none; remove it, or set offload "
         "to state"},
        {{{"kind", "sgd"}, {"update_scale", "original"}},
         "train.optimizer.update_scale is \"original\", but kind sgd has no update_scale; remove "
         "it, or use kind muon"},
        {{{"kind", "sgd"}, {"nesterov", true}},
         "train.optimizer.nesterov is true, but momentum is 0; allowed: false, or set momentum"},
        {{{"groups", {{{"match", "a"}}}}},
         "train.optimizer.groups[0] sets nothing; allowed: match, and at least one of lr, "
         "lr_scale, weight_decay"},
        {{{"groups", {{{"match", "a"}, {"lr", 1}, {"lr_scale", 2}}}}},
         "train.optimizer.groups[0].lr_scale cannot be used with lr; remove one of these two keys"},
        {{{"groups", {{{"match", "a||b"}, {"lr", 1}}}}},
         "train.optimizer.groups[0].match is \"a||b\", which has an empty pattern; allowed: "
         "patterns for the native names of parameters, separated by |"}};
    for (const auto& [optimizer, expected] : cases) {
        const auto problems = optimizer_problems({{"train", {{"optimizer", optimizer}}}});
        ASSERT_EQ(problems.size(), 1U) << optimizer.dump();
        EXPECT_EQ(problems[0].path + " " + problems[0].message, expected);
    }
    for (const Json& good : {Json{{"kind", "muon"}, {"momentum", 0.9}, {"ns_steps", 6}},
                             Json{{"kind", "sgd"}, {"momentum", 0.9}, {"nesterov", true}},
                             Json{{"groups", {{{"match", "a"}, {"lr", 0}}}}}})
        EXPECT_TRUE(optimizer_problems({{"train", {{"optimizer", good}}}}).empty()) << good.dump();
}

}  // namespace
}  // namespace roll::spec
