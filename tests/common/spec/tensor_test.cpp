#include "common/spec/check/tensor.hpp"

#include <gtest/gtest.h>

namespace roll::spec {
namespace {

std::string problems(int tp, const TensorSizes& sizes = {}) {
    std::string text;
    for (const Problem& problem : tensor_problems({.tp = tp}, sizes))
        text += problem.path + " " + problem.message + "\n";
    return text;
}

TEST(Tensor, AcceptsSizesThatDivideAndIgnoresUnknownOnes) {
    EXPECT_EQ(problems(3, {.heads = 9, .kv_heads = 3, .intermediate = 1536}), "");
    EXPECT_EQ(problems(7), "");
    EXPECT_EQ(problems(1, {.heads = 9, .kv_heads = 3, .intermediate = 1536}), "");
}

TEST(Tensor, NamesEachSizeThatDoesNotDivideAndTheAllowedOnes) {
    EXPECT_EQ(problems(2, {.heads = 9, .kv_heads = 3, .intermediate = 1536}),
              "parallel.tp is 2, which does not divide model.num_attention_heads 9; allowed with "
              "this model: 1, 3\n"
              "parallel.tp is 2, which does not divide model.num_key_value_heads 3; allowed with "
              "this model: 1, 3\n");
    EXPECT_EQ(problems(4, {.heads = 8, .intermediate = 42}),
              "parallel.tp is 4, which does not divide model.intermediate_size 42; allowed with "
              "this model: 1, 2\n");
}

TEST(Tensor, RefusesRanksThatShareAKeyValueHeadByName) {
    EXPECT_EQ(problems(8, {.heads = 32, .kv_heads = 4, .intermediate = 96}),
              "parallel.tp is 8, a multiple of model.num_key_value_heads 4: ranks that share a "
              "key-value head are not supported yet; allowed with this model: 1, 2, 4\n");
}

TEST(Tensor, SequenceParallelismNeedsTensorParallelRanks) {
    const std::vector<Problem> refused = tensor_problems({.sequence = true}, {});
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused.front().path, "parallel.sequence");
    EXPECT_TRUE(tensor_problems({.tp = 2, .sequence = true}, {}).empty());
}

TEST(Tensor, AGroupOnSeveralNodesIsAWarning) {
    const auto warning = [](int dp, int tp, int pp, int nodes) {
        return tensor_span_warning({.dp = dp, .tp = tp, .pp = pp}, nodes, "2 MiB");
    };
    EXPECT_EQ(
        warning(1, 4, 1, 2),
        "parallel.tp is 4, but a node has 2 of the job's ranks: a tensor-parallel group is on "
        "2 nodes, and sends 2 MiB per rank and step over the network; to avoid this cost: tp 1, 2, "
        "or 4 ranks on a node");
    EXPECT_NE(warning(1, 8, 1, 4).find("on 4 nodes"), std::string::npos);
    // Groups of 2 on nodes of 3: the second group of each node has a rank on the next node.
    EXPECT_NE(warning(3, 2, 1, 2).find("on 2 nodes"), std::string::npos);
    EXPECT_NE(tensor_span_warning({.tp = 2}, 2, "").find("sends the group's sums over"),
              std::string::npos);
    EXPECT_EQ(warning(1, 4, 1, 1), "");
    EXPECT_EQ(warning(2, 2, 2, 4), "");
    EXPECT_EQ(warning(4, 1, 1, 4), "");
}

}  // namespace
}  // namespace roll::spec
