#include "worker/train/model/generate.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <ATen/Parallel.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/comm/local_fabric.hpp"
#include "worker/train/model/random.hpp"

namespace roll::train {
namespace {

using Tokens = std::vector<std::int64_t>;

Chunk make_model(bool tied) {
    // one thread, because several would wait for each other on a busy machine
    at::set_num_threads(1);
    const spec::ModelConfig config = tiny_model(tied);
    return {config, whole_chunk(config), {.std = 0.3, .dtype = at::kDouble}};
}

// Returns the probability of each token as the next one, computed without a cache.
std::vector<double> shares(Chunk& model, const Tokens& tokens) {
    const auto size = static_cast<std::int64_t>(tokens.size());
    std::vector<double> result;
    for (std::int64_t candidate = 0; candidate < model.config().vocab; ++candidate) {
        at::Tensor targets = at::full({1, size}, ops::kIgnored, at::kLong);
        targets[0][size - 1] = candidate;
        const at::Tensor loss =
            model.evaluate({at::tensor(tokens, at::kLong).view({1, size}), targets}, {});
        result.push_back(std::exp(-loss.item<double>()));
    }
    return result;
}

std::int64_t likeliest(Chunk& model, const Tokens& tokens) {
    const std::vector<double> all = shares(model, tokens);
    return std::max_element(all.begin(), all.end()) - all.begin();
}

TEST(Generate, TheCacheChangesNothing) {
    for (const bool tied : {false, true}) {
        Chunk model = make_model(tied);
        Tokens tokens{3, 14, 15, 9, 26};
        const Tokens generated = generate(text_model(model), tokens, {.max_tokens = 12});
        ASSERT_EQ(generated.size(), 12U);
        for (const std::int64_t token : generated) {
            EXPECT_EQ(likeliest(model, tokens), token);
            tokens.push_back(token);
        }
    }
}

TEST(Generate, SamplesByTheSeedAlone) {
    Chunk model = make_model(false);
    const GenerateOptions options{.max_tokens = 20, .temperature = 1, .seed = 5};
    GenerateOptions other = options;
    other.seed = 6;
    EXPECT_EQ(generate(text_model(model), {1, 2}, options),
              generate(text_model(model), {1, 2}, options));
    EXPECT_NE(generate(text_model(model), {1, 2}, options),
              generate(text_model(model), {1, 2}, other));
}

TEST(Generate, DrawsFromTheLikeliestAlone) {
    Chunk model = make_model(false);
    const Tokens greedy = generate(text_model(model), {4, 2}, {.max_tokens = 10});
    GenerateOptions options{.max_tokens = 10, .temperature = 1, .top_p = 1e-9};
    EXPECT_EQ(generate(text_model(model), {4, 2}, options), greedy);
    // With a top_p below 1, only the most likely tokens that reach it are drawn; here they are
    // several.
    const std::vector<double> share = shares(model, {4, 2});
    Tokens order(share.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return share[a] > share[b]; });
    std::set<std::int64_t> allowed, seen;
    double before = 0;
    for (std::size_t i = 0; before < 0.5; before += share[order[i++]]) allowed.insert(order[i]);
    ASSERT_GT(allowed.size(), 1U);
    options = {.max_tokens = 1, .temperature = 1, .top_p = 0.5};
    for (options.seed = 1; options.seed <= 60; ++options.seed)
        seen.insert(generate(text_model(model), {4, 2}, options).at(0));
    EXPECT_GT(seen.size(), 1U);
    for (const std::int64_t one : seen) EXPECT_TRUE(allowed.contains(one)) << one;
}

TEST(Generate, ChoosesNoneOfTheIdsThatTheTokenizerLacks) {
    Chunk model = make_model(false);
    const std::int64_t likely = likeliest(model, {4, 2});
    ASSERT_GT(likely, 0);
    const std::vector<double> share = shares(model, {4, 2});
    const auto next = std::max_element(share.begin(), share.begin() + likely) - share.begin();
    EXPECT_EQ(generate(text_model(model), {4, 2}, {.max_tokens = 1, .ids = likely}), Tokens{next});
    EXPECT_EQ(generate(text_model(model), {4, 2}, {.max_tokens = 1, .ids = 1000}), Tokens{likely});
    GenerateOptions options{.max_tokens = 20, .temperature = 5, .ids = 3};
    for (options.seed = 1; options.seed <= 5; ++options.seed)
        for (const std::int64_t token : generate(text_model(model), {1, 2}, options))
            EXPECT_LT(token, 3);
}

TEST(Generate, StopsAtTheStopTokenAndAtTheLastPosition) {
    Chunk model = make_model(false);
    const Tokens all = generate(text_model(model), {7, 7}, {.max_tokens = 1000});
    EXPECT_EQ(std::ssize(all), model.config().positions_max - 2 + 1);
    const Tokens stopped =
        generate(text_model(model), {7, 7}, {.max_tokens = 1000, .stop_tokens = {-7, all[4]}});
    EXPECT_LE(stopped.size(), 4U);
    EXPECT_EQ(stopped, Tokens(all.begin(), all.begin() + std::ssize(stopped)));
    EXPECT_EQ(generate(text_model(model), Tokens(500, 3), {.max_tokens = 9}).size(), 2U);
}

struct Layout {
    const char* name;
    plan::PipelineSchedule schedule = plan::gpipe(1, 1, 1);
    int dp = 1, tp = 1, zero = 0;
    bool sequence = false;
    std::vector<Plant> plants = {};
};

// Sets the factors of all adapters to random numbers, the same in every layout. A new adapter would
// change nothing, because its B is 0.
void draw_factors(Parameters& p) {
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const ParameterSpec& spec = p.specs[i];
        if (spec.lora != LoraRole::Factor || spec.sizes.size() == 1) continue;
        const at::Tensor whole = at::empty(whole_sizes(spec), at::kDouble);
        fill_normal(whole, 0.3, 1, spec.name);
        copy_from_whole(spec, whole, p.weight[i]);
    }
}

// Returns the tokens that each rank of the layout gets. With ZeRO-3, also expects that a rank never
// has more than two units of the weights.
std::vector<Tokens> generate_on(const spec::ModelConfig& config, const Layout& layout,
                                const GenerateOptions& options) {
    const int pp = layout.schedule.pp, ranks = layout.dp * layout.tp * pp;
    const plan::Mesh mesh =
        plan::Mesh::make({.dp = layout.dp, .tp = layout.tp, .pp = pp}, ranks).value();
    LocalFabric fabric(ranks, {.rendezvous = true, .plants = layout.plants});
    std::vector<Tokens> all(static_cast<std::size_t>(ranks));
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const auto group = [&](const std::string& name, plan::Axis axis) {
            const std::vector<int> members = mesh.group(rank, axis);
            return fabric.group(name + " " + std::to_string(members.front()), members, rank);
        };
        const auto stages = group("pp", plan::Axis::Pp), replicas = group("dp", plan::Axis::Dp),
                   shards = group("tp", plan::Axis::Tp);
        TrainStep step(config, layout.schedule,
                       {.pp = *stages, .dp = *replicas, .tp = shards.get()},
                       {.init = {.std = 0.3, .dtype = at::kDouble},
                        .sequence = layout.sequence,
                        .zero = layout.zero});
        for (Chunk& chunk : step.chunks()) draw_factors(chunk.parameters());
        const TextModel model = text_model(step);
        const std::int64_t own = std::ranges::count_if(
            model.parts, [](const TextPart& part) { return part.chunk != nullptr; });
        EXPECT_EQ(own, layout.schedule.vp);
        all[static_cast<std::size_t>(rank)] = generate(model, {3, 14, 15, 9}, options);
        for (Chunk& chunk : step.chunks()) {
            if (chunk.gathered() == nullptr) continue;
            chunk.gathered()->check_all_free();
            EXPECT_EQ(chunk.gathered()->most_held(), 2);
        }
    });
    return all;
}

// Stages, ranks that split the tensors, and replicas that share weights.
TEST(Generate, RanksThatShareAModelWriteWhatOneRankWrites) {
    for (const bool tied : {false, true}) {
        spec::ModelConfig config = tiny_model(tied);
        if (tied) {
            config.post_norms = config.norm_adds_one = config.qk_norm = true;
            config.embedding_scale = 4;
            config.logit_soft_cap = 5;
        }
        for (const double temperature : {0.0, 0.8}) {
            const GenerateOptions options{.max_tokens = 12, .temperature = temperature, .seed = 3};
            const Tokens one = generate_on(config, {"one rank"}, options).at(0);
            ASSERT_EQ(one.size(), 12U);
            for (const Layout& layout :
                 {Layout{"pp 2", plan::gpipe(2, 1, 1)}, Layout{"vpp 2", plan::gpipe(2, 2, 1)},
                  Layout{"V", plan::gpipe(2, 2, 1, plan::Placement::V)},
                  Layout{.name = "tp 2", .tp = 2},
                  Layout{.name = "tp 2, sequence", .tp = 2, .sequence = true},
                  Layout{.name = "zero 3", .dp = 2, .zero = 3},
                  Layout{"all", plan::gpipe(2, 1, 1), 2, 2, 3}})
                for (const Tokens& tokens : generate_on(config, layout, options))
                    EXPECT_EQ(tokens, one) << layout.name << (tied ? ", tied" : "");
        }
    }
}

// Adapters whose factors, magnitudes and packed base are split over the ranks
TEST(Generate, RanksThatShareAnAdaptedModelWriteWhatOneRankWrites) {
    const GenerateOptions options{.max_tokens = 12, .temperature = 0.8, .seed = 3};
    spec::ModelConfig config = tiny_model(false);
    std::vector<std::string> modules;
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
        for (const auto& [name, place] : spec::kLoraPlaces)
            modules.push_back("model.layers." + std::to_string(layer) + "." + std::string(name));
    const Tokens plain = generate_on(config, {"one rank"}, options).at(0);
    for (const Json& lora : {Json{{"r", 3}, {"dora", true}}, Json{{"r", 3}, {"base", "nf4"}},
                             Json{{"r", 3}, {"base", "int8"}, {"dora", true}, {"dropout", 0.5}}}) {
        config.lora = spec::resolve_lora(spec::lora_spec(lora), modules).value();
        const Tokens one = generate_on(config, {"one rank"}, options).at(0);
        EXPECT_NE(one, plain) << lora;
        for (const Layout& layout : {Layout{.name = "tp 2", .tp = 2},
                                     Layout{.name = "tp 2, sequence", .tp = 2, .sequence = true},
                                     Layout{"all", plan::gpipe(2, 1, 1), 2, 2, 3, true}})
            for (const Tokens& tokens : generate_on(config, layout, options))
                EXPECT_EQ(tokens, one) << layout.name << ", " << lora;
        if (!config.lora.dora) continue;
        // With lengths of rows that are not summed over the ranks, the tokens must differ.
        const Layout broken{
            .name = "tp 2", .tp = 2, .plants = {{Plant::Kind::Drop, Site::AdapterNorm}}};
        EXPECT_NE(generate_on(config, broken, options).at(0), one) << lora;
    }
}

}  // namespace
}  // namespace roll::train
