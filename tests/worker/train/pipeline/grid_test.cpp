// Tests that every layout trains like one rank that executes the same micro-batches. After each
// of five steps, compares the loss, the gradient norm, the number of zero gradients, the clip
// factor, and all gradients, weights and moments; at the end, the loss of other data. Computes in
// float64, and compares to 1e-10. The weights of all replicas, and both copies of a tied
// embedding, must be bitwise equal. Clipping acts in every step. No size of a micro-batch divides.
//
// The cells are a covering array of at most 8 ranks: each pair of values of two axes, and each
// triple on tp, pp, vpp, zero, dp and recomputation, is in a cell. If a rule of the job file
// refuses all cells with a pair or a triple, one of them is counted as refused, and its nearest
// neighbor is run. With ROLL_GRID=full in the environment (`tests/run grid-full`), each triple of
// all axes is in a cell, and recomputation is compared bit by bit in every cell that has it.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include <ATen/Parallel.h>

#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/tensor.hpp"
#include "tests/worker/train/pipeline/covering.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/pipeline/choose_recompute.hpp"

namespace roll::train {
namespace {

constexpr int kRanksMax = 8;

enum class Ends { Even, Uneven, Accounted };

bool is_full() {
    const char* grid = std::getenv("ROLL_GRID");
    return grid != nullptr && std::string(grid) == "full";
}

// The axes. No rule refuses a kind of recomputation, so Again is left out of the table of rows, and
// chosen for each cell afterwards.
enum Axis { Again, Tp, Pp, Vpp, Zero, Dp, Order, Sequence, Split, Family, Batch, kAxes };
// Number of axes, counted from the first, whose triples are all covered.
int thrice() { return is_full() ? kAxes : 6; }
std::size_t cells_min() { return is_full() ? 2000 : 400; }
constexpr int kKinds = 7;  // values of Again
const std::vector<std::vector<int>> kValues = {
    {0},    {1, 2, 4}, {1, 2, 4},    {1, 2, 4}, {0, 1, 2, 3}, {1, 2, 3, 4}, {0, 1, 2, 3, 4, 5, 6},
    {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2}};

int value(const Row& row, Axis axis) { return kValues[axis][static_cast<std::size_t>(row[axis])]; }

// Returns the number of micro-batches of a step, in all replicas together.
int batch_of(const Row& row) { return value(row, Dp) == 3 ? 12 : 8; }

// Returns a model of the row's family, whose layers the row's way of splitting divides.
spec::ModelConfig model_of(const Row& row) {
    constexpr std::int64_t kLayers[] = {8, 12, 6};
    const int family = value(row, Family);
    spec::ModelConfig config = split_model(family == 3);  // 3: Gemma's features
    if (family < 2) {
        config = tiny_model(family == 1);
        config.heads = 8;
        config.kv_heads = 4;
    }
    config.layers = kLayers[value(row, Split)];
    return config;
}

spec::ParallelSpec parallel_of(const Row& row) {
    spec::ParallelSpec parallel{.dp = value(row, Dp),
                                .tp = value(row, Tp),
                                .pp = value(row, Pp),
                                .vpp = value(row, Vpp),
                                .schedule = static_cast<spec::Schedule>(value(row, Order))};
    const auto ends = static_cast<Ends>(value(row, Split));
    if (ends == Ends::Uneven) {
        parallel.first_layers = 4;
        parallel.last_layers = parallel.pp == 2 ? 8 : 4;
    }
    parallel.account_for_embedding = parallel.account_for_loss = ends == Ends::Accounted;
    parallel.sequence = value(row, Sequence) == 1;
    parallel.zero = value(row, Zero);
    return parallel;
}

// Returns what the row's layers compute again.
plan::Recomputed recomputed(const Row& row) {
    using enum spec::Recompute;
    constexpr spec::Recompute kAgain[kKinds] = {None, Attention, Mlp, AttentionMlp,
                                                Full, Full,      Full};
    spec::ParallelSpec parallel = parallel_of(row);
    parallel.recompute = kAgain[row[Again]];
    if (row[Again] == 5) parallel.recompute_layers = 3;
    if (row[Again] == 6) parallel.recompute_method = spec::RecomputeMethod::Block;
    return plan::recomputed_of(parallel,
                               chunk_layers(stage_chunks(model_of(row), stage_split(parallel))));
}

// Returns the loss of a row's batch. Batches of several lengths learn from a teacher.
spec::TokenLossSpec loss_of(const Row& row) {
    if (value(row, Batch) < 2) return {};
    return {.teacher_weight = 0.6, .temperature = 1.5};
}

int ranks(const Row& row) { return value(row, Dp) * value(row, Tp) * value(row, Pp); }

std::vector<spec::Problem> problems(const Row& row) {
    const spec::ParallelSpec parallel = parallel_of(row);
    const spec::ModelConfig config = model_of(row);
    std::vector<spec::Problem> all = spec::pipeline_problems(
        parallel, {.microbatches = batch_of(row) / parallel.dp, .layers = config.layers});
    std::ranges::move(spec::tensor_problems(parallel, spec::tensor_sizes(config)),
                      std::back_inserter(all));
    return all;
}

std::string name(const Row& row) {
    constexpr const char* kNames[] = {"tp", "pp", "vpp", "zero", "dp"};
    constexpr const char* kSplits[] = {"even", "uneven", "accounted"};
    constexpr const char* kFamilies[] = {"Llama", "tied Llama", "q/k norms", "tied Gemma"};
    constexpr const char* kBatches[] = {"plain", "packed", "lengths with a teacher"};
    constexpr const char* kAgain[kKinds] = {"nothing",        "attention", "mlp",
                                            "attention+mlp",  "all",       "all in units of 3",
                                            "the first layer"};
    std::string text;
    for (const Axis axis : {Tp, Pp, Vpp, Zero, Dp})
        text += std::string(kNames[axis - Tp]) + " " + std::to_string(value(row, axis)) + ", ";
    text += spec::name_of(parallel_of(row).schedule);
    text += std::string(", ") + kAgain[row[Again]] + " again";
    return text + (value(row, Sequence) == 1 ? ", sequence, " : ", ") + kSplits[value(row, Split)] +
           ", " + kFamilies[value(row, Family)] + ", " + kBatches[value(row, Batch)];
}

// Returns all combinations of values with at most kRanksMax ranks.
std::vector<Row> all_rows() {
    std::vector<Row> rows{{}};
    for (const std::vector<int>& values : kValues) {
        std::vector<Row> longer;
        for (const Row& row : rows)
            for (int i = 0; i < std::ssize(values); ++i) {
                longer.push_back(row);
                longer.back().push_back(i);
            }
        rows = std::move(longer);
    }
    std::erase_if(rows, [](const Row& row) { return ranks(row) > kRanksMax; });
    return rows;
}

Named train_cell(const Row& row, std::uint64_t seed, at::ScalarType dtype = at::kDouble) {
    const spec::ParallelSpec parallel = parallel_of(row);
    auto schedule = plan::schedule_of(parallel, batch_of(row) / parallel.dp);
    EXPECT_TRUE(schedule) << name(row);
    if (!schedule) return {};
    return train({.config = model_of(row),
                  .schedule = *std::move(schedule),
                  .dp = parallel.dp,
                  .tp = parallel.tp,
                  .fabric = {.seed = seed},
                  .steps = 5,
                  .sequence = parallel.sequence,
                  .zero = parallel.zero,
                  .dtype = dtype,
                  .split = stage_split(parallel),
                  .data = static_cast<Data>(value(row, Batch)),
                  .loss = loss_of(row),
                  .recompute = recomputed(row)});
}

Row with_kind(Row row, int kind) {
    row[Again] = kind;
    return row;
}

// Gives each cell a kind of recomputation, so that each kind is in a cell with each value of an
// axis, and with each pair of values on tp, pp, vpp, zero and dp that a cell has. Adds cells if
// these do not suffice.
void choose_kinds(std::vector<Row>& cells) {
    Tuples missing;
    for (const Row& cell : cells)
        for (int kind = 0; kind < kKinds; ++kind)
            for (const int tuple : tuples_of(with_kind(cell, kind), thrice()))
                missing.insert(tuple);
    const auto gain = [&](const Row& row) {
        return std::ranges::count_if(tuples_of(row, thrice()),
                                     [&](int tuple) { return missing.contains(tuple); });
    };
    const auto choose = [&](Row& cell) {
        Row best = cell;
        for (int kind = 0; kind < kKinds; ++kind)
            if (const Row other = with_kind(cell, kind); gain(other) > gain(best)) best = other;
        cell = best;
        for (const int tuple : tuples_of(cell, thrice())) missing.erase(tuple);
    };
    for (Row& cell : cells) choose(cell);
    for (std::size_t i = 0, first = cells.size(); i < first && !missing.empty(); ++i)
        for (int kind = 0; kind < kKinds; ++kind)
            if (Row other = with_kind(cells[i], kind); gain(other) > 0) {
                choose(other);
                cells.push_back(std::move(other));
            }
}

struct Grid {
    std::vector<Row> cells, refused;
};

Grid make_grid() {
    std::vector<Row> legal, illegal;
    for (const Row& row : all_rows()) (problems(row).empty() ? legal : illegal).push_back(row);
    std::mt19937_64 random(1);
    const Tuples possible = tuples_of(legal, thrice());
    Tuples impossible = tuples_of(illegal, thrice());
    for (const int tuple : possible) impossible.erase(tuple);
    Grid grid{cover(legal, possible, thrice(), random),
              cover(illegal, impossible, thrice(), random)};
    for (const Row& row : grid.refused) grid.cells.push_back(nearest(legal, row));
    while (grid.cells.size() < cells_min()) grid.cells.push_back(legal[random() % legal.size()]);
    choose_kinds(grid.cells);
    return grid;
}

const Grid& grid() {
    static const Grid made = make_grid();
    return made;
}

// Calls run(0) to run(count - 1) on two threads.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& run) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        at::set_num_threads(1);
        for (std::size_t i = next++; i < count; i = next++) run(i);
    };
    std::thread other(work);
    work();
    other.join();
}

TEST(Grid, EveryCellTrainsAsOneRankDoes) {
    std::map<std::vector<int>, Row> alone;  // by family, split, data and number of micro-batches
    const auto key = [](const Row& row) {
        return std::vector{row[Family], row[Split], row[Batch], batch_of(row)};
    };
    for (const Row& row : grid().cells) {
        Row one(kAxes, 0);
        for (const Axis axis : {Family, Split, Batch}) one[axis] = row[axis];
        alone[key(row)] = one;
    }
    std::mutex mutex;
    std::map<std::vector<int>, Named> references;
    std::vector<std::vector<int>> keys;
    for (const auto& [of, row] : alone) keys.push_back(of);
    in_parallel(keys.size(), [&](std::size_t i) {
        Named reference = train({.config = model_of(alone[keys[i]]),
                                 .schedule = plan::gpipe(1, 1, keys[i].back()),
                                 .steps = 5,
                                 .data = static_cast<Data>(value(alone[keys[i]], Batch)),
                                 .loss = loss_of(alone[keys[i]])});
        const std::lock_guard lock(mutex);
        references[keys[i]] = std::move(reference);
    });
    in_parallel(grid().cells.size(), [&](std::size_t i) {
        const Row& row = grid().cells[i];
        SCOPED_TRACE(name(row));
        const auto differs = first_difference({train_cell(row, i + 1)}, references.at(key(row)));
        EXPECT_EQ(differs, std::nullopt) << name(row);
    });
}

// Whatever backward computes again has the bits that it had in forward, in every type.
TEST(Grid, RecomputationChangesNoBit) {
    const std::size_t every = is_full() ? 1 : 40;  // one cell of this many is run
    constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
    std::vector<Row> cells;
    for (const Row& row : grid().cells)
        if (row[Again] != 0) cells.push_back(row);
    in_parallel(cells.size() / every, [&](std::size_t i) {
        const Row& row = cells[every * i];
        const at::ScalarType dtype = kTypes[i % std::size(kTypes)];
        const Named saved = train_cell(with_kind(row, 0), i + 1, dtype);
        const Named again = train_cell(row, i + 1, dtype);
        EXPECT_EQ(saved.size(), again.size());
        for (const auto& [name_of_tensor, tensor] : saved)
            EXPECT_TRUE(tensor.equal(again.at(name_of_tensor)))
                << name(row) << ": " << name_of_tensor << " in " << dtype;
    });
}

// The rules are named by the key of the job file that they refuse.
TEST(Grid, RulesRefuseFewOfItsCells) {
    EXPECT_GE(grid().cells.size(), cells_min());
    EXPECT_LE(20 * grid().refused.size(), grid().cells.size());
    for (const Row& row : grid().refused) {
        const std::vector<spec::Problem> all = problems(row);
        ASSERT_FALSE(all.empty());
        EXPECT_TRUE(all.front().path.starts_with("parallel.")) << name(row);
        std::printf("refused: %s: %s\n", name(row).c_str(), all.front().path.c_str());
    }
    std::printf("%zu cells, %zu refused\n", grid().cells.size(), grid().refused.size());
}

}  // namespace
}  // namespace roll::train
