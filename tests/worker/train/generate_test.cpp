#include "worker/train/model/generate.hpp"

#include <ATen/Parallel.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"

namespace roll::train {
namespace {

using Tokens = std::vector<std::int64_t>;

Chunk make_model(bool tied) {
    at::set_num_threads(1);  // on a busy machine more only wait for each other
    const spec::ModelConfig config = tiny_model(tied);
    return {config, split_layers(config, 0, 1), {.std = 0.3, .dtype = at::kDouble}};
}

// The next token without any cache: the one whose loss is the smallest.
std::int64_t likeliest(Chunk& model, const Tokens& tokens) {
    const auto size = static_cast<std::int64_t>(tokens.size());
    double best = INFINITY;
    std::int64_t token = -1;
    for (std::int64_t candidate = 0; candidate < model.config().vocab; ++candidate) {
        at::Tensor targets = at::full({1, size}, ops::kIgnored, at::kLong);
        targets[0][size - 1] = candidate;
        const double loss =
            model.evaluate({at::tensor(tokens, at::kLong).view({1, size}), targets}, {})
                .item<double>();
        if (loss < best) best = loss, token = candidate;
    }
    return token;
}

TEST(Generate, TheCacheChangesNothing) {
    for (const bool tied : {false, true}) {
        Chunk model = make_model(tied);
        Tokens tokens{3, 14, 15, 9, 26};
        const Tokens generated = generate(model, tokens, {.max_tokens = 12});
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
    EXPECT_EQ(generate(model, {1, 2}, options), generate(model, {1, 2}, options));
    EXPECT_NE(generate(model, {1, 2}, options), generate(model, {1, 2}, other));
}

TEST(Generate, StopsAtTheStopTokenAndAtTheLastPosition) {
    Chunk model = make_model(false);
    const Tokens all = generate(model, {7, 7}, {.max_tokens = 1000});
    EXPECT_EQ(std::ssize(all), model.config().positions_max - 2 + 1);
    const Tokens stopped =
        generate(model, {7, 7}, {.max_tokens = 1000, .stop_tokens = {-7, all[4]}});
    EXPECT_LE(stopped.size(), 4U);
    EXPECT_EQ(stopped, Tokens(all.begin(), all.begin() + std::ssize(stopped)));
    EXPECT_EQ(generate(model, Tokens(500, 3), {.max_tokens = 9}).size(), 2U);
}

}  // namespace
}  // namespace roll::train
