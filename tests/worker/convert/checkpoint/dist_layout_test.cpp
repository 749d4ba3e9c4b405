// Tests which parts of a model the keys of distributed and flat checkpoints hold. Pure geometry.
#include "worker/convert/checkpoint/dist_layout.hpp"

#include <gtest/gtest.h>

#include "worker/convert/checkpoint/flat_ranges.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"

namespace roll::convert {
namespace {

struct Model4 {
    families::Families families = families::Families::load().value();
    const families::Family& family = *families.find("mixtral").value();
    Json config = families::complete_hf_config(family, {{"hidden_size", 8},
                                                        {"num_hidden_layers", 2},
                                                        {"vocab_size", 16},
                                                        {"num_attention_heads", 2},
                                                        {"intermediate_size", 12},
                                                        {"num_key_value_heads", 2},
                                                        {"num_local_experts", 4},
                                                        {"num_experts_per_tok", 2}})
                      .value();
    Json native_config = families::native_config(family, config).value();
    std::vector<families::NativeTensor> native =
        families::native_tensors(family, native_config, config).value();
    Model model = model_of(native);
};

TEST(DistKeys, StackLayersAndExperts) {
    const Model4 mixtral;
    const DistKeys keys = dist_keys(mixtral.native, mixtral.model, false).value();
    const DistTensor& stacked = keys.at("decoder.layers.mlp.experts.experts.linear_fc1.weight");
    EXPECT_EQ(stacked.stacked, (Shape{2, 4}));
    EXPECT_EQ(stacked.parts[5].whole, (Shape{2, 4, 24, 8}));
    EXPECT_EQ(stacked.parts[5].origin, (Shape{1, 1, 0, 0}));
    const DistTensor& layer = keys.at("decoder.layers.1.mlp.experts.experts.linear_fc1.weight");
    EXPECT_EQ(layer.stacked, (Shape{4}));
    EXPECT_FALSE(keys.contains("decoder.layers.1.mlp.experts.experts.3.linear_fc1.weight_w"));
}

TEST(DistKeys, OfSingletonsHaveGateAndUpApart) {
    const Model4 mixtral;
    const DistKeys keys = dist_keys(mixtral.native, mixtral.model, true).value();
    const std::string hf = "model.layers.1.block_sparse_moe.experts.3.";
    for (const auto& [ending, source] : {std::pair("_w", "w1"), std::pair("_v", "w3")})
        for (const char* experts : {"experts", "local_experts"}) {
            const std::string key = std::string("decoder.layers.1.mlp.experts.") + experts +
                                    ".3.linear_fc1.weight" + ending;
            ASSERT_TRUE(keys.contains(key)) << key;
            const DistTensor& tensor = keys.at(key);
            ASSERT_EQ(tensor.parts.size(), 1U);
            EXPECT_EQ(tensor.parts[0].whole, (Shape{12, 8}));
            ASSERT_EQ(tensor.parts[0].pieces.size(), 1U);
            EXPECT_EQ(tensor.parts[0].pieces[0].hf,
                      mixtral.model.number.at(hf + source + ".weight"));
        }
    EXPECT_TRUE(keys.contains("decoder.layers.1.mlp.experts.experts.3.linear_fc2.weight"));
}

TEST(Cut, KeepsWhatLiesInTheBox) {
    Stored part;
    part.shape = {4, 6};
    part.pieces = {{0, {10, 0}, {2, 6}, {0, 0}}, {1, {20, 0}, {2, 6}, {2, 0}}};
    const Stored found = cut(part, {1, 2}, {2, 3});
    ASSERT_EQ(found.pieces.size(), 2U);
    EXPECT_EQ(found.pieces[0].begin, (Shape{11, 2}));
    EXPECT_EQ(found.pieces[0].size, (Shape{1, 3}));
    EXPECT_EQ(found.pieces[0].stored_begin, (Shape{0, 0}));
    EXPECT_EQ(found.pieces[1].begin, (Shape{20, 2}));
    EXPECT_EQ(found.pieces[1].stored_begin, (Shape{1, 0}));
}

// The piece is transposed: its dims run along other dims of the tensor, with steps.
TEST(Cut, FollowsPlacings) {
    Stored part;
    part.shape = {2, 3, 8};
    part.pieces = {{0, {0, 0}, {4, 3}, {1, 0, 1}, {{2, 1}, {2, 1}}, 0}};
    // of columns 2 to 5, the piece has 3 and 5
    const Stored found = cut(part, {1, 1, 2}, {1, 2, 4});
    ASSERT_EQ(found.pieces.size(), 1U);
    EXPECT_EQ(found.pieces[0].begin, (Shape{1, 1}));
    EXPECT_EQ(found.pieces[0].size, (Shape{2, 2}));
    EXPECT_EQ(found.pieces[0].stored_begin, (Shape{0, 0, 1}));
    EXPECT_TRUE(cut(part, {0, 0, 0}, {1, 3, 8}).pieces.empty());
}

TEST(BoxesOfRange, AreItsElementsInOrder) {
    for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 4}, Shape{4, 1, 3}}) {
        std::int64_t count = 1;
        for (const std::int64_t dim : shape) count *= dim;
        for (std::int64_t begin = 0; begin < count; ++begin)
            for (std::int64_t end = begin; end <= count; ++end) {
                std::int64_t next = begin;
                boxes_of_range(shape, begin, end,
                               [&](const Shape& from, const Shape& size, std::int64_t first) {
                                   EXPECT_EQ(first, next - begin);
                                   std::int64_t flat = 0;
                                   std::int64_t volume = 1;
                                   for (std::size_t dim = 0; dim < shape.size(); ++dim) {
                                       EXPECT_LE(from[dim] + size[dim], shape[dim]);
                                       flat = flat * shape[dim] + from[dim];
                                       volume *= size[dim];
                                   }
                                   EXPECT_EQ(flat, next);
                                   next += volume;
                               });
                EXPECT_EQ(next, end);
            }
    }
}

}  // namespace
}  // namespace roll::convert
