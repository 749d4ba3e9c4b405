// Compares documents that share one sequence, but do not attend to each other, with each document
// in a sequence of its own.
#include <random>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/ops/attention.hpp"

namespace roll::train {
namespace {

using Document = std::vector<std::int64_t>;

std::vector<Document> documents(const std::vector<int>& sizes, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Document> all;
    for (const int size : sizes) {
        all.emplace_back();
        for (int i = 0; i < size; ++i)
            all.back().push_back(static_cast<std::int64_t>(random() % 53));
    }
    return all;
}

// Packs the documents into rows of `length` positions, without cutting any. A document of n tokens
// has n - 1 targets.
Microbatch packed(const std::vector<Document>& all, std::int64_t rows, std::int64_t length) {
    Microbatch batch{at::zeros({rows, length}, at::kLong),
                     at::full({rows, length}, ops::kIgnored, at::kLong)};
    const at::Tensor tokens_M = batch.tokens_BT.flatten(), targets_M = batch.targets_BT.flatten();
    std::int64_t at = 0;
    for (const Document& document : all) {
        batch.segments.push_back(at);
        for (std::size_t i = 0; i < document.size(); ++i, ++at) {
            tokens_M[at] = document[i];
            if (i + 1 < document.size()) targets_M[at] = document[i + 1];
        }
    }
    // the remainder is padding, a segment of its own
    if (at < rows * length) batch.segments.push_back(at);
    return batch;
}

Microbatch alone(const Document& document) {
    return packed({document}, 1, static_cast<std::int64_t>(document.size()));
}

struct Outcome {
    double loss = 0;
    std::vector<at::Tensor> grad;
};

Outcome step(Chunk& model, const std::vector<Microbatch>& batch) {
    Outcome outcome;
    const GradReady ready = [](int) {};
    model.begin_step();
    for (int i = 0; i < static_cast<int>(batch.size()); ++i) {
        outcome.loss += model.forward(i, batch[i], {}, {.scale = 0.25}, ready).item<double>();
        model.backward_input(i, {}, WeightHalves::Later, ready);
        model.backward_weight(i, ready);
    }
    for (const at::Tensor& grad : model.parameters().grad) outcome.grad.push_back(grad.clone());
    return outcome;
}

Chunk make_model(const spec::ModelConfig& config) {
    return {config, whole_chunk(config), {.std = 0.3, .dtype = at::kDouble}};
}

void expect_packed_equals_alone(const spec::ModelConfig& config) {
    Chunk model = make_model(config);
    // they fill two rows of 24 positions
    const std::vector<Document> all = documents({7, 1, 12, 4, 9, 2, 13}, 5);
    std::vector<Microbatch> one_by_one;
    for (const Document& document : all) {
        one_by_one.push_back(alone(document));
        one_by_one.back().segments.clear();
    }
    const Outcome expected = step(model, one_by_one);
    const Outcome got = step(model, {packed(all, 2, 24)});
    EXPECT_NEAR(got.loss, expected.loss, 1e-12 * expected.loss);
    double value = 0;
    for (const Microbatch& document : one_by_one)
        value += model.evaluate(document, {}).item<double>();
    EXPECT_NEAR(model.evaluate(packed(all, 2, 24), {}).item<double>(), value, 1e-12 * value);
    for (std::size_t i = 0; i < got.grad.size(); ++i)
        expect_close(got.grad[i], expected.grad[i], model.parameters().specs[i].name, 1e-12);
}

TEST(Packing, EqualsEachDocumentAlone) {
    expect_packed_equals_alone(tiny_model(false));
    expect_packed_equals_alone(tiny_model(true));
}

TEST(Packing, OfAttentionWithAWindowAndACap) {
    const at::TensorOptions like = at::kDouble;
    const ops::Heads heads{at::randn({1, 4, 30, 6}, like), at::randn({1, 2, 30, 6}, like),
                           at::randn({1, 2, 30, 6}, like)};
    const ops::AttentionRule rule{.soft_cap = 3, .window = 5};
    const std::vector<std::int64_t> starts{0, 1, 9, 22};
    const at::Tensor do_BTA = at::randn({1, 30, 24}, like);
    ops::PiecesSaved saved;
    const at::Tensor o_BTA =
        ops::attention_within(heads, rule, ops::segment_pieces(starts, 30), saved);
    const ops::Heads d = ops::attention_within_backward(do_BTA, saved);
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t begin = starts[i],
                           size = (i + 1 < starts.size() ? starts[i + 1] : 30) - begin;
        const auto part = [&](const at::Tensor& all) {
            return all.narrow(2, begin, size).contiguous();
        };
        ops::AttentionSaved alone;
        const at::Tensor o = ops::attention(
            {part(heads.q_BHTD), part(heads.k_BGTD), part(heads.v_BGTD)}, rule, alone);
        expect_close(o_BTA.narrow(1, begin, size), o, "o");
        const ops::Heads dpart =
            ops::attention_backward(do_BTA.narrow(1, begin, size).contiguous(), alone);
        expect_close(part(d.q_BHTD), dpart.q_BHTD, "dq");
        expect_close(part(d.k_BGTD), dpart.k_BGTD, "dk");
        expect_close(part(d.v_BGTD), dpart.v_BGTD, "dv");
    }
}

// Two pieces, as a rank of a context-parallel group has them: the first and the last quarter.
TEST(Packing, PiecesThatShareKeysAreRowsOfTheWhole) {
    const at::TensorOptions like = at::kDouble;
    const ops::Heads heads{at::randn({1, 4, 32, 6}, like), at::randn({1, 2, 32, 6}, like),
                           at::randn({1, 2, 32, 6}, like)};
    const ops::AttentionRule rule{.soft_cap = 3, .window = 5};
    const auto ends = [](const at::Tensor& all, std::int64_t dim) {
        return at::cat({all.narrow(dim, 0, 8), all.narrow(dim, 24, 8)}, dim).contiguous();
    };
    at::Tensor do_BTA = at::randn({1, 32, 24}, like);
    do_BTA.narrow(1, 8, 16).zero_();
    ops::AttentionSaved whole;
    const at::Tensor o_BTA = ops::attention(heads, rule, whole);
    const ops::Heads d = ops::attention_backward(do_BTA, whole);
    const ops::Heads parts{ends(heads.q_BHTD, 2), heads.k_BGTD, heads.v_BGTD};
    ops::PiecesSaved saved;
    const std::vector<ops::Piece> pieces{{0, 8, 0, 8}, {8, 8, 0, 32}};
    expect_close(ops::attention_within(parts, rule, pieces, saved), ends(o_BTA, 1), "o");
    for (ops::AttentionSaved& part : saved.parts) part.heads = {};
    const ops::Heads own = ops::attention_within_backward(ends(do_BTA, 1), std::move(saved), parts);
    expect_close(own.q_BHTD, ends(d.q_BHTD, 2), "dq");
    expect_close(own.k_BGTD, d.k_BGTD, "dk");
    expect_close(own.v_BGTD, d.v_BGTD, "dv");
}

TEST(Packing, SeesAcrossDocumentsWithoutSegments) {
    Chunk model = make_model(tiny_model(false));
    const std::vector<Document> all = documents({10, 14}, 6);
    Microbatch batch = packed(all, 1, 24);
    const double apart = model.evaluate(batch, {}).item<double>();
    batch.segments.clear();
    EXPECT_GT(std::abs(model.evaluate(batch, {}).item<double>() - apart), 1e-3);
}

TEST(Packing, ARowIsASegmentLikeAnyOther) {
    Chunk model = make_model(tiny_model(false));
    Microbatch batch = tiny_batch(3, 1)[0];
    const Outcome expected = step(model, {batch});
    batch.segments = {0, 11};
    const Outcome got = step(model, {batch});
    EXPECT_NEAR(got.loss, expected.loss, 1e-13 * expected.loss);
    for (std::size_t i = 0; i < got.grad.size(); ++i)
        expect_close(got.grad[i], expected.grad[i], model.parameters().specs[i].name, 1e-13);
}

}  // namespace
}  // namespace roll::train
