// The boxes of all ranks cover each tensor exactly once, for every family and a grid of layouts.
#include "worker/layout/shards.hpp"

#include <map>

#include <gtest/gtest.h>

#include "tests/worker/layout/every_family.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"

namespace roll::layout {
namespace {

using families::NativeTensor;
using formats::McaLayout;

Json small_config() { return config_of_every_family({{"num_nextn_predict_layers", 1}}); }

std::vector<McaLayout> grid() {
    std::vector<McaLayout> layouts;
    for (const int tp : {1, 2, 4})
        for (const auto& [pp, vpp] : {std::pair(1, 1), {1, 2}, {2, 1}, {2, 2}, {4, 1}})
            for (const auto& [ep, etp] : {std::pair(1, 0), {2, 0}, {2, 1}, {4, 2}})
                layouts.push_back({.tp = tp, .pp = pp, .vpp = vpp, .ep = ep, .etp = etp});
    layouts.push_back({.tp = 2, .pp = 2, .account_for_embedding = true, .account_for_loss = true});
    layouts.push_back({.tp = 2, .pp = 2, .first_layers = 3});
    layouts.push_back({.tp = 4, .pp = 2, .last_layers = 1});
    layouts.push_back({.pp = 2, .vpp = 2, .pipeline = "E|t*3|t|L"});
    return layouts;
}

// Calls `visit` with the row-major number of each element of a box in a tensor of this shape.
template <class F>
void for_each_element(const Shape& shape, const Shape& begin, const Shape& size, F visit) {
    std::int64_t rows = 1;
    for (std::size_t dim = 0; dim + 1 < shape.size(); ++dim) rows *= size[dim];
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t first = 0;
        std::int64_t stride = shape.back();
        std::int64_t rest = row;
        for (std::size_t dim = shape.size() - 1; dim-- > 0;) {
            first += (begin[dim] + rest % size[dim]) * stride;
            rest /= size[dim];
            stride *= shape[dim];
        }
        for (std::int64_t i = 0; i < size.back(); ++i) visit(first + begin.back() + i);
    }
}

std::size_t elements(const Shape& shape) {
    return static_cast<std::size_t>(tensor::element_count(shape).value());
}

using Counts = std::map<std::string, std::vector<int>>;  // by source and element

// Counts in `owned` the elements that a rank owns. Checks that no two boxes of a shard overlap and
// that all of them together are the shard, except for padding.
void add_rank(const std::vector<NativeTensor>& native, const std::vector<Held>& all, bool padded,
              Counts& owned) {
    for (const Held& held : all) {
        const NativeTensor& tensor = native[held.tensor];
        std::vector<int> local(elements(held.shard.shape));
        std::size_t filled = 0;
        for (const Box& box : held.shard.boxes) {
            for_each_element(held.shard.shape, box.local, box.size,
                             [&](std::int64_t i) { filled += ++local.at(std::size_t(i)) == 1; });
            const families::HfTensor& source = tensor.sources[box.source];
            auto& counts = owned.try_emplace(source.name, elements(source.shape)).first->second;
            for_each_element(source.shape, box.begin, box.size,
                             [&](std::int64_t i) { counts.at(std::size_t(i)) += held.owner; });
        }
        const std::size_t boxed = filled;
        const bool whole = boxed == local.size() || padded;
        EXPECT_TRUE(whole) << held.name << ": " << boxed << " of " << local.size();
        EXPECT_EQ(*std::max_element(local.begin(), local.end()), boxed > 0 ? 1 : 0) << held.name;
    }
}

// Returns whether the layout fits the model. Checks that its ranks own each element once.
bool covers(const std::vector<NativeTensor>& native, const McaLayout& layout,
            std::int64_t padded_vocab) {
    Counts owned;
    formats::McaRank rank;
    for (rank.pp = 0; rank.pp < layout.pp; ++rank.pp)
        for (rank.ep = 0; rank.ep < layout.ep; ++rank.ep)
            for (rank.tp = 0; rank.tp < layout.tp; ++rank.tp) {
                if (!formats::mca_has_rank(layout, rank)) continue;
                const auto held = held_by(native, layout, padded_vocab, rank);
                if (!held) return false;
                add_rank(native, *held, padded_vocab > 0, owned);
            }
    for (const NativeTensor& tensor : native)
        for (const families::HfTensor& source : tensor.sources) {
            const auto found = owned.find(source.name);
            if (found == owned.end()) {
                ADD_FAILURE() << source.name << " is on no rank";
                continue;
            }
            for (const int count : found->second)
                if (count != 1) {
                    ADD_FAILURE() << source.name << " has an element with " << count << " owners";
                    break;
                }
        }
    return true;
}

TEST(Shards, RanksOwnEachElementOnce) {
    const auto known = families::Families::load().value();
    const Json config = small_config();
    for (const auto& [name, family] : known.all()) {
        SCOPED_TRACE(name);
        const Json native = families::native_config(family, config).value();
        const auto tensors = families::native_tensors(family, native, config).value();
        int fits = 0;
        for (const McaLayout& layout : grid()) {
            SCOPED_TRACE(testing::Message()
                         << "tp " << layout.tp << " pp " << layout.pp << " vpp " << layout.vpp
                         << " ep " << layout.ep << " etp " << layout.etp);
            fits += covers(tensors, layout, 0);
        }
        const bool has_experts =
            std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.expert; });
        EXPECT_GE(fits, has_experts ? 38 : 13);
    }
}

TEST(Shards, PaddingBelongsToNobody) {
    const auto known = families::Families::load().value();
    const families::Family& family = *known.find("llama").value();
    const Json native = families::native_config(family, small_config()).value();
    const auto tensors = families::native_tensors(family, native).value();
    EXPECT_TRUE(covers(tensors, {.tp = 4, .pp = 2}, 40));
    EXPECT_FALSE(covers(tensors, {.tp = 4}, 42)) << "42 rows on 4 ranks";
    const auto last = held_by(tensors, {.tp = 4}, 40, {.tp = 3}).value();
    EXPECT_EQ(last[0].shard.shape, (Shape{10, 16}));
    EXPECT_EQ(last[0].shard.boxes[0].size, (Shape{0, 16}));
}

TEST(Shards, ARankHasRowsOfGateAndOfUp) {
    const auto known = families::Families::load().value();
    const families::Family& family = *known.find("llama").value();
    const Json native = families::native_config(family, small_config()).value();
    const auto tensors = families::native_tensors(family, native).value();
    const auto all = held_by(tensors, {.tp = 2, .pp = 2}, 0, {.tp = 1, .pp = 1}).value();
    for (const Held& held : all) {
        if (held.name != "decoder.layers.1.mlp.linear_fc1.weight") continue;
        EXPECT_EQ(tensors[held.tensor].layer, 3);
        EXPECT_EQ(held.shard.shape, (Shape{8, 16}));
        ASSERT_EQ(held.shard.boxes.size(), 2U);
        EXPECT_EQ(held.shard.boxes[1].source, 1U);
        EXPECT_EQ(held.shard.boxes[1].begin, (Shape{4, 0}));
        EXPECT_EQ(held.shard.boxes[1].local, (Shape{4, 0}));
        return;
    }
    FAIL() << "the last stage lacks the layer";
}

}  // namespace
}  // namespace roll::layout
