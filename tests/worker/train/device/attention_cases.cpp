#include "tests/worker/train/device/attention_cases.hpp"

#include <string>
#include <vector>

#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/rope.hpp"

namespace roll::ops {
namespace {

struct Shape {
    std::int64_t batch, heads, kv_heads, positions, dim;
    AttentionRule rule = {};

    std::int64_t projection() const { return (heads + 2 * kv_heads) * dim; }
    std::string text() const {
        std::string sizes;
        for (const std::int64_t size : {batch, heads, kv_heads, positions, dim})
            sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
        if (rule.window > 0) sizes += " window " + std::to_string(rule.window);
        if (rule.soft_cap > 0) sizes += " capped";
        return sizes;
    }
};

// Returns the angles on the device, in float32 as training has them.
RopeTable table_there(const Trial& t, const Shape& s) {
    const RopeTable table = rope_table(s.positions, s.dim, 10000.0, {}, at::kDouble);
    return {t.there(table.cos_TE, at::kFloat), t.there(table.sin_TE, at::kFloat)};
}

// Returns the angles as the device has them, so that their rounding is no error of the operator.
RopeTable rounded(const RopeTable& table) {
    return {table.cos_TE.cpu().to(at::kDouble), table.sin_TE.cpu().to(at::kDouble)};
}

}  // namespace

void rope_case(Trial& t) {
    for (const Shape& s :
         {Shape{3, 6, 2, 37, 10}, {1, 1, 1, 1, 2}, {2, 4, 4, 65, 64}, {1, 8, 1, 1, 128}}) {
        const at::Tensor qkv = t.random({s.batch, s.positions, s.projection()});
        const RopeTable table = table_there(t, s), exact_table = rounded(table);
        const Heads found = rope(t.there(qkv), s.kv_heads, table),
                    exact = rope(qkv, s.kv_heads, exact_table);
        t.compare("q " + s.text(), found.q_BHTD, exact.q_BHTD);
        t.compare("k " + s.text(), found.k_BGTD, exact.k_BGTD);
        t.compare("v " + s.text(), found.v_BGTD, exact.v_BGTD);
        // On a CPU, the gradients of attention are float32.
        const bool wide = t.device().is_cpu();
        const auto grad = [&](const at::Tensor& x) { return wide ? x.to(at::kFloat) : x; };
        const Heads d{grad(found.q_BHTD), grad(found.k_BGTD), grad(found.v_BGTD)};
        t.compare("dqkv " + s.text(), rope_backward(d, table, t.type()),
                  rope_backward(exact, exact_table, at::kDouble));
    }
}

void attention_case(Trial& t) {
    std::vector<Shape> shapes = {{2, 6, 2, 37, 10},
                                 {1, 1, 1, 1, 8},
                                 {1, 3, 3, 5, 64},
                                 {1, 4, 2, 129, 64},
                                 {1, 2, 1, 70, 128},
                                 {1, 2, 2, 33, 256},
                                 {1, 4, 2, 150, 32, {.window = 33}},
                                 {1, 2, 2, 130, 16, {.window = 1}},
                                 {2, 4, 2, 40, 6, {0.7, 1.5, 13}},
                                 {1, 2, 1, 65, 64, {.soft_cap = 1.5}}};
    if (t.large()) shapes.push_back({1, 4, 2, 1025, 64});
    for (const Shape& s : shapes) {
        const at::Tensor qkv = t.random({s.batch, s.positions, s.projection()}),
                         d_o = t.random({s.batch, s.positions, s.heads * s.dim});
        const RopeTable table = table_there(t, s), exact_table = rounded(table);
        AttentionSaved found, exact;
        const Heads heads = rope(t.there(qkv), s.kv_heads, table);
        const auto wide = [](const at::Tensor& x) {  // the rotated values as the device has them
            return x.cpu().to(at::kDouble).contiguous();
        };
        const Heads same{wide(heads.q_BHTD), wide(heads.k_BGTD), wide(heads.v_BGTD)};
        t.compare("o " + s.text(), attention(heads, s.rule, found), attention(same, s.rule, exact));
        t.compare("dqkv " + s.text(),
                  rope_backward(attention_backward(t.there(d_o), found), table, t.type()),
                  rope_backward(attention_backward(d_o, exact), exact_table, at::kDouble), 2e-5,
                  3e-2);
    }
}

void segments_case(Trial& t) {
    const Shape s{1, 4, 2, 97, 32};
    const std::vector<std::int64_t> starts = {0, 1, 30, 96};
    const std::vector<Piece> pieces = segment_pieces(starts, s.positions);
    const at::Tensor qkv = t.random({1, s.positions, s.projection()}),
                     d_o = t.random({1, s.positions, s.heads * s.dim});
    const RopeTable table = table_there(t, s), exact_table = rounded(table);
    PiecesSaved found, exact;
    const at::Tensor o =
        attention_within(rope(t.there(qkv), s.kv_heads, table), s.rule, pieces, found);
    t.compare("o", o, attention_within(rope(qkv, s.kv_heads, exact_table), s.rule, pieces, exact),
              2e-5, 3e-2);
    t.compare(
        "dqkv",
        rope_backward(attention_within_backward(t.there(d_o), std::move(found)), table, t.type()),
        rope_backward(attention_within_backward(d_o, std::move(exact)), exact_table, at::kDouble),
        2e-5, 3e-2);
}

}  // namespace roll::ops
