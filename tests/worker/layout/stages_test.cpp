#include "worker/layout/stages.hpp"

#include <gtest/gtest.h>

namespace roll::layout {
namespace {

using formats::McaLayout;

TEST(Stages, OrderChunksAsMegatronDoes) {
    const auto ranges = split_layers(8, McaLayout{.pp = 2, .vpp = 2}).value();
    EXPECT_EQ(ranges[0][0], (LayerRange{0, 2}));
    EXPECT_EQ(ranges[1][0], (LayerRange{2, 4}));
    EXPECT_EQ(ranges[0][1], (LayerRange{4, 6}));
    EXPECT_EQ(ranges[1][1], (LayerRange{6, 8}));
}

TEST(Stages, CountTheEmbeddingAndTheLossIfAsked) {
    const McaLayout both{.pp = 2, .account_for_embedding = true, .account_for_loss = true};
    EXPECT_EQ(split_layers(6, both).value()[0][0], (LayerRange{0, 3}));
    const McaLayout loss{.pp = 2, .account_for_loss = true};
    EXPECT_EQ(split_layers(5, loss).value()[0][0], (LayerRange{0, 3}));
    EXPECT_EQ(split_layers(5, loss).value()[1][0], (LayerRange{3, 5}));
}

TEST(Stages, FollowALayoutString) {
    const McaLayout layout{.pp = 2, .pipeline = "E,t*3|t*4,L"};
    EXPECT_EQ(split_layers(7, layout).value()[1][0], (LayerRange{3, 7}));
    EXPECT_FALSE(split_layers(8, layout));
    const McaLayout repeated{.pp = 2, .vpp = 2, .pipeline = "Et|(t*2|)*2tL"};
    EXPECT_EQ(split_layers(6, repeated).value()[0][1], (LayerRange{3, 5}));
    for (const char* wrong : {"E,t*3", "t*|t", "x|t", "t|t|t", "t*999999|t"})
        EXPECT_FALSE(split_layers(2, McaLayout{.pp = 2, .pipeline = wrong})) << wrong;
}

TEST(Stages, GiveTheFirstAndTheLastNumbersOfTheirOwn) {
    const McaLayout layout{.pp = 4, .first_layers = 2, .last_layers = 1};
    const auto ranges = split_layers(13, layout).value();
    EXPECT_EQ(ranges[0][0], (LayerRange{0, 2}));
    EXPECT_EQ(ranges[2][0], (LayerRange{7, 12}));
    EXPECT_EQ(ranges[3][0], (LayerRange{12, 13}));
    // 2 + 4 layers, with two chunks on each stage: 0 | 1 2 | 3 | 4 5
    const auto chunks = split_layers(6, McaLayout{.pp = 2, .vpp = 2, .first_layers = 2}).value();
    EXPECT_EQ(chunks[1][0], (LayerRange{1, 3}));
    EXPECT_EQ(chunks[0][1], (LayerRange{3, 4}));
    EXPECT_EQ(chunks[1][1], (LayerRange{4, 6}));
    EXPECT_EQ(split_layers(8, layout).error().message,
              "num_layers 8 minus 2 in the first and 1 in the last stage: the remaining layers "
              "cannot be divided evenly among the other 2 stages of pp 4");
    for (const McaLayout& wrong :
         {McaLayout{.pp = 2, .vpp = 2, .first_layers = 1}, McaLayout{.pp = 2, .first_layers = 9},
          McaLayout{.pp = 1, .first_layers = 2, .last_layers = 2},
          McaLayout{.pp = 2, .account_for_loss = true, .first_layers = 4}})
        EXPECT_FALSE(split_layers(8, wrong));
}

TEST(Stages, RefuseWhatDoesNotDivide) {
    EXPECT_EQ(split_layers(5, McaLayout{.pp = 2}).error().message,
              "num_layers 5 is not divisible by pp 2 x vpp 1");
    const McaLayout uneven{.pp = 4, .account_for_embedding = true, .account_for_loss = true};
    EXPECT_EQ(
        split_layers(4, uneven).error().message,
        "num_layers 4 (6 with the embedding and loss counted) is not divisible by pp 4 x vpp 1");
}

}  // namespace
}  // namespace roll::layout
