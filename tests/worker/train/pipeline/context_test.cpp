// Tests context parallelism: the rows of each rank, the mean of each micro-batch, and that the
// comparison with one rank finds bugs. A bug is planted in the communication of a step or in the
// rows that the ranks get; the trainer is unchanged. For each bug, prints the first cell and
// quantity that differ from those of one rank. Without the bugs, nothing differs. grid_test.cpp
// compares context parallelism in pairs with all other axes.
#include "worker/train/model/context.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

using WholeRows = std::vector<std::int64_t>;

WholeRows numbers_in(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.flatten().contiguous();
    return {flat.const_data_ptr<std::int64_t>(),
            flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

TEST(Context, EachRankHasTwoSlicesOfEachSequence) {
    const at::Tensor tokens_BT = at::arange(100, 114).view({2, 7});
    // the segments of the second sequence begin at its positions 0 and 3
    const Microbatch data{tokens_BT, tokens_BT + 1, {0, 7, 10}};
    const Microbatch part = context_parts({&data, 1}, 2, 1)[0];
    EXPECT_EQ(numbers_in(part.tokens_BT), (WholeRows{102, 103, 104, 105, 109, 110, 111, 112}));
    EXPECT_EQ(numbers_in(part.targets_BT), (WholeRows{103, 104, 105, 106, 110, 111, 112, 113}));
    const ContextRows& rows = *part.context;
    EXPECT_EQ(numbers_in(rows.row_W),
              (WholeRows{0, 1, 6, 7, 8, 9, 14, 15, 2, 3, 4, 5, 10, 11, 12, 13}));
    EXPECT_EQ(numbers_in(rows.position_M), (WholeRows{2, 3, 4, 5, 2, 0, 1, 2}));
    EXPECT_EQ(numbers_in(rows.number_M), (WholeRows{2, 3, 4, 5, 9, 10, 11, 12}));
    EXPECT_EQ(rows.pieces,
              (std::vector<ops::Piece>{
                  {0, 2, 0, 4}, {2, 2, 0, 6}, {4, 1, 8, 3}, {5, 1, 11, 1}, {6, 2, 11, 3}}));
    // The first rank has the padding of both sequences.
    const Microbatch first = context_parts({&data, 1}, 2, 0)[0];
    EXPECT_EQ(numbers_in(first.targets_BT),
              (WholeRows{101, 102, 107, ops::kIgnored, 108, 109, 114, ops::kIgnored}));
}

// Returns jobs with context parallelism and different data.
std::vector<std::pair<const char*, World>> context_cells() {
    World world{.config = split_model(false),
                .schedule = plan::gpipe(1, 1, kMicrobatches / 2),
                .dp = 2,
                .fabric = {.seed = 1},
                .steps = 1,
                .cp = 2};
    World packed = world, windows = world, four = world;
    packed.data = Data::Packed;
    packed.loss.neftune_alpha = 5;
    windows.config.window = 3;
    windows.schedule = plan::zero_bubble_h1(2, kMicrobatches / 2);
    four.cp = 4;
    four.recompute.resize(static_cast<std::size_t>(four.config.layers));
    plan::set_recomputed(four.recompute, {0, four.config.layers}, spec::Recompute::Full,
                         four.config.layers, 2);
    return {{"dp 2, cp 2", world},
            {"packed, dp 2, cp 2", packed},
            {"window, pp 2, dp 2, cp 2", windows},
            {"again, dp 2, cp 4", four}};
}

World without_layout(World world) {
    world.schedule = plan::gpipe(1, 1, world.dp * world.schedule.microbatches);
    world.dp = world.cp = 1;
    world.recompute = {};
    world.divide = {};
    return world;
}

// Returns a function that divides micro-batches, and then changes the rows of each rank.
auto dividing(void (*change)(ContextRows& rows, const Communicator& cp)) {
    return [change](std::span<const Microbatch> batch, const Communicator& cp) {
        std::vector<Microbatch> parts = context_parts(batch, &cp);
        for (Microbatch& part : parts) change(*part.context, cp);
        return parts;
    };
}

void swap_halves(ContextRows& rows, const Communicator& cp) {
    rows.row_W = rows.row_W.view({cp.size(), -1, 2, 1}).flip(2).flatten();
}
void number_locally(ContextRows& rows, const Communicator& /*cp*/) {
    rows.position_M = at::arange(rows.position_M.numel()).remainder(rows.positions);
}
void see_own_slice(ContextRows& rows, const Communicator& /*cp*/) {
    for (ops::Piece& piece : rows.pieces) {
        piece.key += piece.keys - piece.queries;
        piece.keys = piece.queries;
    }
}
void see_one_key_less(ContextRows& rows, const Communicator& /*cp*/) {
    for (ops::Piece& piece : rows.pieces)
        if (piece.keys > piece.queries) --piece.keys;
}
void see_earlier_documents(ContextRows& rows, const Communicator& /*cp*/) {
    for (ops::Piece& piece : rows.pieces)
        if (piece.key > 0) ++piece.keys, --piece.key;
}
void draw_locally(ContextRows& rows, const Communicator& /*cp*/) {
    rows.number_M = at::arange(rows.number_M.numel());
}

// Sums only over the ranks of the group that have the same rank in their cp group.
at::Tensor summed_without_cp(const Delivery& to) {
    const int cp = static_cast<int>(to.inputs.size()) / 2;  // every cell has dp 2
    const auto own = static_cast<std::size_t>(to.rank % cp);
    return to.inputs[own] + to.inputs[own + static_cast<std::size_t>(cp)];
}

struct ContextBug {
    const char* name;
    std::vector<Plant> plants = {};
    void (*change)(ContextRows& rows, const Communicator& cp) = nullptr;
    const char* cell = "";  // prefix of the names of the cells in which the bug may be found
};

std::vector<ContextBug> context_bugs() {
    using enum Plant::Kind;
    const auto without_cp = [](Site site) {
        return Plant{Change, site, -1, "dp", false, summed_without_cp};
    };
    return {{"token count over dp without cp", {without_cp(Site::TokenCount)}},
            {"gradients over dp without cp", {without_cp(Site::Bucket)}},
            {"evaluation over dp without cp", {without_cp(Site::Evaluation)}},
            {"halves of the zig-zag swapped", {}, swap_halves},
            {"rotary embedding by local position", {}, number_locally},
            {"attention within the own slice only", {}, see_own_slice},
            {"window that ends at the slice", {}, see_own_slice, "window"},
            {"last key not seen", {}, see_one_key_less},
            {"documents that see the one before", {}, see_earlier_documents, "packed"},
            {"noise by local row", {}, draw_locally, "packed"},
            {"keys and values not gathered", {{Drop, Site::ContextKeys}}},
            {"keys and values of another layer in backward",
             {{Delay, Site::ContextKeys, -1, "", true}}},
            {"keys and values not gathered again",
             {{Drop, Site::ContextKeys, -1, "", true}},
             nullptr,
             "again"},
            {"gradients of keys and values counted twice", {{Double, Site::ContextGrads, 1}}},
            {"gradients of keys and values not summed", {{Drop, Site::ContextGrads}}}};
}

TEST(Context, EachPlantedBugIsFoundAndNothingDiffersWithoutThem) {
    const auto all = context_cells();
    std::vector<Named> references;
    for (const auto& [name, world] : all) {
        references.push_back(train(without_layout(world)));
        EXPECT_EQ(first_difference(train_locally(job_of(world)), references.back()), std::nullopt)
            << name;
    }
    for (const ContextBug& bug : context_bugs()) {
        std::string found;
        for (std::size_t i = 0; i < all.size() && found.empty(); ++i) {
            auto [name, world] = all[i];
            if (!std::string(name).starts_with(bug.cell)) continue;
            world.fabric.plants = bug.plants;
            if (bug.change != nullptr) world.divide = dividing(bug.change);
            const auto differs = first_difference(train_locally(job_of(world)), references[i]);
            if (differs) found = std::string(name) + ": " + *differs;
        }
        EXPECT_NE(found, "") << bug.name;
        std::printf("%s: %s\n", bug.name, found.c_str());
    }
}

// The mean of a micro-batch is over the targets of all ranks that share its sequences.
TEST(Context, TheMeanOfAMicrobatchIsThatOfOneRank) {
    for (const auto& [name, world] : context_cells()) {
        LocalJob one = job_of(without_layout(world)), layout = job_of(world);
        one.batch = layout.batch;
        one.options.normalize = layout.options.normalize = spec::Normalize::Microbatch;
        EXPECT_EQ(first_difference(train_locally(layout), train_locally(one).values), std::nullopt)
            << name;
    }
}

}  // namespace
}  // namespace roll::train
