#include "tests/worker/train/pipeline/grid_rows.hpp"

#include <cstdlib>
#include <map>
#include <set>

#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/tensor.hpp"
#include "common/spec/train/read_lora.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/families/score.hpp"
#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/pipeline/choose_recompute.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

constexpr int kRanksMax = 8;

enum class Ends { Even, Uneven, Accounted };

// Number of axes, counted from the first, whose triples are all covered
int thrice() { return is_full() ? kAxes : 6; }

// No rule refuses a kind of recomputation, so Again is left out of the table of rows, and chosen
// for each cell afterwards.
constexpr int kKinds = 7;  // values of Again
const std::vector<std::vector<int>> kValues = {{0},
                                               {1, 2, 4},
                                               {1, 2, 4},
                                               {1, 2, 4},
                                               {0, 1, 2, 3},
                                               {1, 2, 3, 4},
                                               {0, 1, 2, 3, 4, 5, 6},
                                               {0, 1},
                                               {0, 1, 2},
                                               {0, 1, 2, 3},
                                               {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                               {0, 1, 2, 3, 4},
                                               {1, 2, 4}};

int value(const Row& row, Axis axis) { return kValues[axis][static_cast<std::size_t>(row[axis])]; }

// A lesson is the data of a job and the loss of its tokens or preferences.
struct Lesson {
    const char* name;
    Data data = Data::Plain;
    spec::TokenLossSpec loss = {};
    std::optional<spec::PreferenceSpec> preference = std::nullopt;
    double clip = kClip;  // 0, no clipping, where a step may have a small gradient
};

const std::vector<Lesson>& lessons() {
    using enum spec::PreferenceKind;
    static const std::vector<Lesson> all = {
        {"plain"},
        {"packed, with all terms",
         Data::Packed,
         {.label_smoothing = 0.1, .z_loss = 0.02, .neftune_alpha = 5}},
        {"lengths with a teacher", Data::Lengths, {.teacher_weight = 0.6, .temperature = 1.5}},
        {"dpo", Data::Pairs, {}, {{.beta = 0.3, .label_smoothing = 0.1, .nll_weight = 0.2}}},
        {"dpo ipo", Data::Pairs, {}, {{.loss = spec::PairLoss::Ipo, .beta = 0.3}}},
        {"dpo robust",
         Data::Pairs,
         {},
         {{.loss = spec::PairLoss::Robust, .beta = 0.3, .label_smoothing = 0.1}}},
        {"dpo hinge", Data::Pairs, {}, {{.loss = spec::PairLoss::Hinge, .beta = 0.3}}, 0},
        {"simpo", Data::Pairs, {}, {{.kind = SimPo, .beta = 2, .gamma = 1}}},
        {"orpo", Data::Pairs, {}, {{.kind = Orpo, .beta = 0.5, .nll_weight = 1}}},
        {"cpo", Data::Pairs, {}, {{.kind = Cpo, .beta = 0.3, .nll_weight = 0.5}}},
        {"kto",
         Data::Labels,
         {},
         {{.kind = Kto,
           .loss = spec::PairLoss::Kto,
           .beta = 0.05,
           .desirable_weight = 1.5,
           .undesirable_weight = 0.7}},
         0},
        {"reward",
         Data::Pairs,
         {},
         {{.kind = Reward, .beta = 1, .center_rewards_coefficient = 0.2}}}};
    return all;
}

// Number of the last lesson that has a loss of tokens
constexpr int kTokenLessons = 2;

const Lesson& lesson_of(const Row& row) {
    return lessons()[static_cast<std::size_t>(value(row, Learned))];
}

bool has_scores(const Row& row) {
    const auto& preference = lesson_of(row).preference;
    return preference && preference->compares_scores();
}

constexpr const char* kAdapters[] = {"whole", "LoRA", "some of LoRA", "DoRA on int8",
                                     "dropout on nf4"};

// Returns train.lora of the row's job; null if it trains the whole model.
Json lora_of(const Row& row, bool tied) {
    switch (value(row, Adapter)) {
        case 1: return {{"r", 3}, {"alpha", 12}};
        case 2:
            return {{"r", 2},
                    {"alpha", 8},
                    {"rslora", true},
                    {"targets", {"k_proj", "o_proj", "up_proj"}},
                    {"rank_pattern", {{"o_proj", 4}}}};
        case 3: return {{"r", 3}, {"dora", true}, {"lr_ratio", 8}, {"base", "int8"}};
        case 4: {
            Json drops = {
                {"r", 2}, {"dropout", 0.3}, {"base", "nf4"}, {"double_quantization", true}};
            if (!tied && !has_scores(row)) drops["modules_to_save"] = "lm_head";
            return drops;
        }
        default: return nullptr;
    }
}

// Returns true if fewer layers suffice for the row's chunks. The time of a cell grows with its
// layers and micro-batches, because operators on so small tensors all take the same time.
bool has_few_chunks(const Row& row) { return value(row, Pp) * value(row, Vpp) <= 4; }

// Returns the number of layers of a job with few chunks or with more. The way of splitting divides
// them.
int layers_of(Ends split, bool few_chunks) {
    if (split == Ends::Accounted) return 6;
    return (split == Ends::Uneven ? 12 : 8) / (few_chunks ? 2 : 1);
}

// Returns a model. 4 ranks divide its heads and its intermediate size, but not its vocabulary.
ModelSetup setup_of(int family, int layers) {
    constexpr const char* kNames[] = {"llama", "llama", "qwen3", "gemma2"};
    Json sizes{{"hidden_size", 24},
               {"num_hidden_layers", layers},
               {"num_attention_heads", 8},
               {"num_key_value_heads", 4},
               {"head_dim", 6},
               {"intermediate_size", 40},
               {"vocab_size", 53},
               {"max_position_embeddings", 64}};
    if (family == 1) sizes["tie_word_embeddings"] = true;
    if (family == 2) sizes["attention_bias"] = true;
    if (family == 3) sizes.update({{"sliding_window", 7}, {"final_logit_softcapping", 5}});
    static const families::Families all = need(families::Families::load());
    const families::Family& found = *need(all.find(kNames[family]));
    ModelSetup setup;
    setup.hf_config = need(families::complete_hf_config(found, sizes));
    setup.native = need(families::native_config(found, setup.hf_config));
    setup.config = need(families::model_config(found, setup.native));
    return setup;
}

// Returns the model of the row's family, before its objective and its adapter change it.
const ModelSetup& base_of(const Row& row) {
    static const auto all = [] {
        std::map<std::pair<int, int>, ModelSetup> made;
        for (const int family : kValues[Family])
            for (const int split : kValues[Split])
                for (const bool few_chunks : {false, true}) {
                    const int layers = layers_of(static_cast<Ends>(split), few_chunks);
                    made.try_emplace({family, layers}, setup_of(family, layers));
                }
        return made;
    }();
    const auto split = static_cast<Ends>(value(row, Split));
    return all.at({value(row, Family), layers_of(split, has_few_chunks(row))});
}

// Returns the number of micro-batches of a step, in all replicas together. Each replica has at
// least two, and at least two for each stage unless dp x pp is 8.
int batch_of(const Row& row) {
    if (value(row, Dp) == 3) return 6 * value(row, Pp);
    return value(row, Dp) * value(row, Pp) <= 2 ? 4 : 8;
}

// Removes the targets of a micro-batch of tokens. Of pairs, the 6th micro-batch already has none.
void without_targets(int /*step*/, std::vector<Microbatch>& batch) {
    batch[1].targets_BT.fill_(ops::kIgnored);
}

spec::ParallelSpec parallel_of(const Row& row) {
    spec::ParallelSpec parallel{.dp = value(row, Dp),
                                .tp = value(row, Tp),
                                .pp = value(row, Pp),
                                .vpp = value(row, Vpp),
                                .cp = value(row, Cp),
                                .schedule = static_cast<spec::Schedule>(value(row, Order))};
    const auto ends = static_cast<Ends>(value(row, Split));
    if (ends == Ends::Uneven) {
        const int layers = layers_of(ends, has_few_chunks(row));
        parallel.first_layers = layers / 3;
        parallel.last_layers = parallel.pp == 2 ? layers - layers / 3 : layers / 3;
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
    return plan::recomputed_of(
        parallel, chunk_layers(stage_chunks(base_of(row).config, stage_split(parallel))));
}

int ranks(const Row& row) {
    return value(row, Dp) * value(row, Tp) * value(row, Pp) * value(row, Cp);
}

// Returns `rows`, each with each value of the axes from `begin` to `end`.
std::vector<Row> product(std::vector<Row> rows, Axis begin, Axis end) {
    for (int axis = begin; axis < end; ++axis) {
        std::vector<Row> longer;
        for (const Row& row : rows)
            for (int i = 0; i < std::ssize(kValues[static_cast<std::size_t>(axis)]); ++i) {
                longer.push_back(row);
                longer.back().push_back(i);
            }
        rows = std::move(longer);
    }
    return rows;
}

// Returns combinations of values of Split, Family, Learned and Adapter that have each pair (in the
// full grid each triple) of them. There are few, because one rank must train each.
std::vector<Row> taught_rows(std::mt19937_64& random) {
    const std::vector<Row> all = product({{}}, Split, Cp);
    const int triples = is_full() ? kAxes : 0;
    return cover(all, tuples_of(all, triples), triples, random, [](const Row&) { return 1; });
}

// Returns the rows with at most kRanksMax ranks: each layout with each of the `taught` rows, with
// the values of Cp whose indices are in `sizes`.
std::vector<Row> all_rows(const std::vector<Row>& taught, const std::vector<int>& sizes) {
    std::vector<Row> rows;
    for (const Row& one : taught)
        for (Row row : product({{}}, Again, Split)) {
            row.insert(row.end(), one.begin(), one.end());
            row.push_back(0);
            for (const int size : sizes) {
                row[Cp] = size;
                if (ranks(row) <= kRanksMax) rows.push_back(row);
            }
        }
    return rows;
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

}  // namespace

bool is_full() {
    const char* grid = std::getenv("ROLL_GRID");
    return grid != nullptr && std::string(grid) == "full";
}

std::size_t cells_min() { return is_full() ? 2000 : 400; }

Row with_kind(Row row, int kind) {
    row[Again] = kind;
    return row;
}

Grid make_grid() {
    std::mt19937_64 random(1);
    std::vector<Row> legal, illegal;
    for (Row& row : all_rows(taught_rows(random), {0}))
        (problems(row).empty() ? legal : illegal).push_back(std::move(row));
    const Tuples possible = tuples_of(legal, thrice());
    Tuples impossible = tuples_of(illegal, thrice());
    // Drops the triples with an impossible pair. The pair stays, and a row that is refused for it
    // is enough.
    std::erase_if(impossible, [&](int tuple) {
        return possible.contains(tuple) || std::ranges::any_of(pairs_of(tuple), [&](int pair) {
                   return !possible.contains(pair);
               });
    });
    Grid grid{cover(legal, possible, thrice(), random, cost_of),
              cover(illegal, impossible, thrice(), random, cost_of)};
    for (const Row& row : grid.refused) grid.cells.push_back(nearest(legal, row));
    // The cells so far have all tuples. Further cells are cheap ones: with keys of others, because
    // one rank must train each key, and of the cheaper half.
    std::set<std::vector<int>> keys;
    for (const Row& row : grid.cells) keys.insert(key_of(row));
    std::erase_if(legal, [&](const Row& row) { return !keys.contains(key_of(row)); });
    std::ranges::stable_sort(legal, {}, cost_of);
    legal.resize(legal.size() / 2);
    while (grid.cells.size() < cells_min()) grid.cells.push_back(legal[random() % legal.size()]);
    choose_kinds(grid.cells);
    return grid;
}

std::vector<Row> context_rows() {
    std::mt19937_64 random(2);
    std::vector<Row> taught;  // few, but with all values, because one rank must train each
    for (int i = 0; i < std::ssize(kValues[Adapter]); ++i)
        taught.push_back({i % 3, i % 4, 2 * i % (kTokenLessons + 1), i});
    std::vector<Row> legal;
    for (Row& row : all_rows(taught, {1, 2}))
        if (problems(row).empty()) legal.push_back(std::move(row));
    const int triples = is_full() ? kAxes : 0;
    Tuples wanted = tuples_of(legal, triples);
    // Keeps the pairs and triples whose last axis is Cp.
    std::erase_if(wanted, [](int tuple) {
        const int above = tuple / (kRadix * kRadix);
        return (above > 0 ? above - 1 : tuple % kRadix) / 16 != Cp;
    });
    std::vector<Row> cells = cover(legal, wanted, triples, random, cost_of);
    std::vector<int> of_size(kValues[Cp].size(), 0);
    for (Row& cell : cells) cell[Again] = of_size[static_cast<std::size_t>(cell[Cp])]++ % kKinds;
    return cells;
}

std::vector<spec::Problem> problems(const Row& row) {
    const spec::ParallelSpec parallel = parallel_of(row);
    const spec::ModelConfig& config = base_of(row).config;
    std::vector<spec::Problem> all = spec::pipeline_problems(
        parallel, {.microbatches = batch_of(row) / parallel.dp, .layers = config.layers});
    std::ranges::move(spec::tensor_problems(parallel, spec::tensor_sizes(config)),
                      std::back_inserter(all));
    return all;
}

ModelSetup setup_of(const Row& row) {
    ModelSetup setup = base_of(row);
    if (has_scores(row)) {
        families::set_scores(setup.native, 1);
        setup.config.scores = true;
        setup.config.tied = false;
    }
    if (const Json lora = lora_of(row, setup.config.tied); !lora.is_null()) {
        const auto modules = families::modules_of(native_tensors(setup));
        setup.config.lora = spec::resolve_lora(spec::lora_spec(lora), modules).value();
        setup.base = "the starting weights";
    }
    return setup;
}

std::vector<int> key_of(const Row& row) {
    return {row[Family], row[Learned], row[Adapter], batch_of(row),
            static_cast<int>(base_of(row).config.layers)};
}

std::int64_t cost_of(const Row& row) {
    return value(row, Tp) * value(row, Cp) * batch_of(row) * base_of(row).config.layers;
}

World world_of(const Row& row, const ModelSetup& setup) {
    const spec::ParallelSpec parallel = parallel_of(row);
    const Lesson& lesson = lesson_of(row);
    // An update would enlarge the rounding errors of a gradient as small as AdamW's usual epsilon.
    spec::OptimizerSpec optimizer;
    optimizer.eps = 1e-6;
    return {.config = setup.config,
            .schedule = need(plan::schedule_of(parallel, batch_of(row) / parallel.dp)),
            .dp = parallel.dp,
            .tp = parallel.tp,
            .steps = kStepsOfCell,
            .cp = parallel.cp,
            .sequence = parallel.sequence,
            .zero = parallel.zero,
            .clip = setup.config.lora.is_set() ? 0 : lesson.clip,  // factors have small gradients
            .split = stage_split(parallel),
            .data = lesson.data,
            .loss = lesson.loss,
            .preference = lesson.preference,
            .recompute = recomputed(row),
            .optimizer = optimizer,
            .saves_after = kStepsOfCell,
            .model = &setup,
            .parallel = parallel,
            .evaluates = false,
            .change = lesson.preference ? nullptr : without_targets};
}

World alone(World world) {
    world.schedule = plan::gpipe(1, 1, world.dp * world.schedule.microbatches);
    world.dp = world.tp = world.cp = 1;
    world.sequence = false;
    world.zero = 0;
    world.split = {};
    world.recompute = {};
    world.parallel = {};
    return world;
}

std::string name(const Row& row) {
    constexpr const char* kNames[] = {"tp", "pp", "vpp", "zero", "dp"};
    constexpr const char* kSplits[] = {"even", "uneven", "accounted"};
    constexpr const char* kFamilies[] = {"Llama", "tied Llama", "Qwen 3", "tied Gemma 2"};
    constexpr const char* kAgain[kKinds] = {"nothing",        "attention", "mlp",
                                            "attention+mlp",  "all",       "all in units of 3",
                                            "the first layer"};
    std::string text;
    if (value(row, Cp) > 1) text = "cp " + std::to_string(value(row, Cp)) + ", ";
    for (const Axis axis : {Tp, Pp, Vpp, Zero, Dp})
        text += std::string(kNames[axis - Tp]) + " " + std::to_string(value(row, axis)) + ", ";
    text += spec::name_of(parallel_of(row).schedule);
    text += std::string(", ") + kAgain[row[Again]] + " again";
    return text + (value(row, Sequence) == 1 ? ", sequence, " : ", ") + kSplits[value(row, Split)] +
           ", " + kFamilies[value(row, Family)] + ", " + lesson_of(row).name + ", " +
           kAdapters[value(row, Adapter)];
}

}  // namespace roll::train
