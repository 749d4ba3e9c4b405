// Tests each operator in float64: its value against a plain formula, its backward against autograd
// of that formula. Sizes are odd, so that every kernel and every block has a remainder.
#include <array>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/ops/random.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/ops/embedding.hpp"
#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/linear.hpp"
#include "worker/train/ops/panel_matmul.hpp"
#include "worker/train/ops/qk_norm.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/rope.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::ops {
namespace {

at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().requires_grad_(); }

// at::parallel_for silently uses one thread in a file that is compiled without OpenMP.
TEST(ForRows, RunsOnAllThreads) {
    at::set_num_threads(2);
    std::array<std::thread::id, 2> who{};
    for_rows(2, 1, [&](std::int64_t row, std::int64_t) { who[row] = std::this_thread::get_id(); });
    EXPECT_NE(who[0], who[1]);
}

TEST(Linear, BackwardIsAutograds) {
    const at::Tensor x = random({37, 19}), w = random({23, 19}), dy = random({37, 23});
    const at::Tensor xa = leaf(x), wa = leaf(w), ya = xa.matmul(wa.t());
    ya.backward(dy);
    expect_close(ops::linear(x, w), ya.detach(), "y");
    expect_close(linear_add(dy, x, w), ya.detach() + dy, "y + residual");
    expect_close(linear_backward_input(dy, w), xa.grad(), "dx");
    const at::Tensor dw = at::ones_like(w);
    linear_backward_weight(dy, x, dw, Sum::Add);
    expect_close(dw - 1, wa.grad(), "dw");
}

TEST(Linear, BiasBackwardIsAutograds) {
    const at::Tensor x = random({37, 19}), w = random({23, 19}), dy = random({37, 23});
    const at::Tensor bias = random({23}), ba = leaf(bias), ya = x.matmul(w.t()) + ba;
    ya.backward(dy);
    expect_close(ops::linear(x, w, bias), ya.detach(), "y");
    const at::Tensor dbias = at::ones_like(bias);
    linear_backward_bias(dy, dbias, Sum::Add);
    expect_close(dbias - 1, ba.grad(), "dbias");
    linear_backward_bias(dy, dbias, Sum::Replace);
    expect_close(dbias, ba.grad(), "dbias replaced");
}

TEST(Linear, Float32IsCloseToFloat64) {
    const at::Tensor x = random({37, 19}), w = random({23, 19}), dy = random({37, 23});
    const at::Tensor dw = at::ones({23, 19}, at::kFloat);
    linear_backward_weight(dy.to(at::kFloat), x.to(at::kFloat), dw, Sum::Add);
    expect_close(dw, (dy.t().mm(x) + 1).to(at::kFloat), "dw", 1e-6);
    expect_close(ops::linear(x.to(at::kFloat), w.to(at::kFloat)), x.mm(w.t()).to(at::kFloat), "y",
                 1e-6);
}

TEST(Embedding, BackwardIsAutograds) {
    const at::Tensor w = random({13, 7}), tokens = at::randint(13, {29}), dy = random({29, 7});
    const at::Tensor wa = leaf(w), ya = at::embedding(wa, tokens);
    ya.backward(dy);
    const at::Tensor dw = at::zeros_like(w);
    embedding_backward_weight(dy, tokens, dw, Sum::Add);
    expect_close(ops::embedding(tokens, w), ya.detach(), "y");
    expect_close(dw, wa.grad(), "dw");
}

TEST(RmsNorm, BackwardIsAutograds) {
    const at::Tensor x = random({71, 43}), w = random({43}), dy = random({71, 43});
    const at::Tensor xa = leaf(x), wa = leaf(w);
    const at::Tensor ya = xa * (xa.square().mean(1, true) + 1e-5).rsqrt() * wa;
    ya.backward(dy);
    RmsNormSaved saved;
    expect_close(rms_norm(x, w, 1e-5, saved), ya.detach(), "y");
    const at::Tensor dw = at::zeros_like(w), residual = random({71, 43});
    expect_close(rms_norm_backward(dy, w, saved, residual, dw), xa.grad() + residual, "dx");
    expect_close(dw, wa.grad(), "dw");
}

TEST(Swiglu, BackwardIsAutograds) {
    const at::Tensor x = 3 * random({17, 2 * 29}), da = random({17, 29});
    const at::Tensor xa = leaf(x), ya = at::silu(xa.narrow(1, 0, 29)) * xa.narrow(1, 29, 29);
    ya.backward(da);
    SwigluSaved saved;
    expect_close(swiglu(x, saved), ya.detach(), "a");
    at::Tensor again;
    expect_close(swiglu_backward(da, saved, again), xa.grad(), "dgate_up");
    expect_close(again, ya.detach(), "a, again");
}

TEST(Geglu, BackwardIsAutograds) {
    const at::Tensor x = 3 * random({17, 2 * 29}), da = random({17, 29}), xa = leaf(x);
    const at::Tensor g = xa.narrow(1, 0, 29);
    const at::Tensor inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g.pow(3));
    const at::Tensor ya = 0.5 * g * (1 + inner.tanh()) * xa.narrow(1, 29, 29);
    ya.backward(da);
    expect_close(geglu(x), ya.detach(), "a");
    expect_close(geglu_backward(da, x), xa.grad(), "dgate_up");
}

TEST(QkNorm, BackwardIsAutograds) {
    for (const auto& [M, H, G, D] : {std::tuple{71, 6, 2, 10}, {3, 3, 3, 6}, {40, 4, 1, 16}}) {
        const at::Tensor x = random({M, (H + 2 * G) * D}), dy = random(x.sizes());
        const at::Tensor q = random({D}), k = random({D});
        const at::Tensor xa = leaf(x), qa = leaf(q), ka = leaf(k);
        const auto parts = xa.view({M, G, -1, D}).split_with_sizes({H / G, 1, 1}, 2);
        const auto norm = [](const at::Tensor& v, const at::Tensor& w) {
            return v * (v.square().mean(-1, true) + 1e-5).rsqrt() * w;
        };
        const at::Tensor ya =
            at::cat({norm(parts[0], qa), norm(parts[1], ka), parts[2]}, 2).view(x.sizes());
        ya.backward(dy);
        QkNormSaved saved;
        expect_close(qk_norm(x, q, k, G, 1e-5, saved), ya.detach(), "y");
        const at::Tensor dq = at::empty_like(q), dk = at::empty_like(k);
        expect_close(qk_norm_backward(dy, q, k, G, saved, dq, dk), xa.grad(), "dx");
        expect_close(dq, qa.grad(), "dq");
        expect_close(dk, ka.grad(), "dk");
        expect_close(qk_norm_by_parts(x, q, k, G, 1e-5, saved), ya.detach(), "y by parts");
        expect_close(qk_norm_by_parts_backward(dy, q, k, G, saved, dq, dk), xa.grad(),
                     "dx by parts");
        expect_close(dq, qa.grad(), "dq by parts");
        expect_close(dk, ka.grad(), "dk by parts");
    }
}

// Compares products of bfloat16 with products in double, in all four orders of memory and with
// every size of a panel's remainder.
TEST(Matmul, Bfloat16IsTheExactProductRoundedOnce) {
    for (const auto& [M, K, N] : {std::array{33, 2, 1},
                                  {40, 64, 48},
                                  {71, 130, 113},
                                  {200, 66, 97},
                                  {64, 4200, 50},
                                  {3, 64, 48},
                                  {40, 63, 20}}) {
        for (const int order : {0, 1, 2, 3}) {
            const auto made = [](std::int64_t rows, std::int64_t columns, bool turned) {
                at::manual_seed(rows * 7 + columns);
                const at::Tensor x =
                    turned ? at::randn({columns, rows}).t() : at::randn({rows, columns});
                return x.to(at::kBFloat16);
            };
            const at::Tensor a = made(M, K, order % 2 == 1), b = made(K, N, order >= 2);
            const at::Tensor exact = a.to(at::kDouble).mm(b.to(at::kDouble));
            at::Tensor out = at::full({M, N}, 0.5, at::kBFloat16);
            matmul(out, a, b, 1);
            EXPECT_LT((out.to(at::kDouble) - exact - 0.5).norm().item<double>(),
                      4e-3 * (exact + 0.5).norm().item<double>());
            matmul(out, a, b, 0);
            EXPECT_LT((out.to(at::kDouble) - exact).norm().item<double>(),
                      4e-3 * exact.norm().item<double>());
        }
    }
}

// Compares panel_matmul(), which most processors use, with products in double. The matrices are
// float32, bfloat16 and float16 in several orders of memory, larger than one block. The bits must
// be the same with any number of threads.
TEST(Matmul, PanelsSumInFloat32AndRoundOnce) {
    const int threads = at::get_num_threads();
    for (const auto& [M, K, N] :
         {std::array{1, 7, 5}, {70, 130, 113}, {33, 2100, 65}, {2100, 16, 3}, {5, 1, 1}}) {
        for (const int kind : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
            const auto made = [&](std::int64_t rows, std::int64_t columns, bool turned) {
                at::manual_seed(rows * 7 + columns);
                const at::Tensor x =
                    turned ? at::randn({columns, rows}).t() : at::randn({rows, columns});
                return kind < 4 ? x : x.to(kind < 8 ? at::kBFloat16 : at::kHalf);
            };
            const at::Tensor a = made(M, K, kind % 2 == 1), b = made(K, N, kind / 2 % 2 == 1);
            const at::Tensor exact = a.to(at::kDouble).mm(b.to(at::kDouble)) + 0.5;
            for (const at::ScalarType type : {at::kFloat, kind < 8 ? at::kBFloat16 : at::kHalf}) {
                at::Tensor first;
                for (const int others : {1, 3}) {
                    at::set_num_threads(others);
                    const at::Tensor out = at::full({M, N}, 0.5, type);
                    panel_matmul(out, a, b, 1);
                    EXPECT_LT((out.to(at::kDouble) - exact).norm().item<double>(),
                              (type == at::kFloat ? 1e-6 : 4e-3) * exact.norm().item<double>())
                        << M << " " << K << " " << N << " " << kind;
                    if (first.defined()) {
                        EXPECT_TRUE(out.equal(first));
                    }
                    first = out;
                }
                at::set_num_threads(threads);
            }
        }
    }
}

// Multiplies parts of larger matrices, also at odd offsets. The bits must equal those for copies,
// with any number of threads.
TEST(Matmul, Bfloat16OfPartsIsThatOfCopies) {
    at::manual_seed(5);
    const at::Tensor left = at::randn({70, 90}).to(at::kBFloat16);
    const at::Tensor right = at::randn({90, 120}).to(at::kBFloat16);
    for (const std::int64_t shift : {0, 1, 2}) {
        const at::Tensor a = left.narrow(0, shift, 65).narrow(1, shift, 64);
        const at::Tensor b = right.narrow(0, 3, 64).narrow(1, shift, 101);
        at::Tensor whole = at::zeros({80, 110}, at::kBFloat16);
        matmul(whole.narrow(0, 2, 65).narrow(1, 5, 101), a, b, 0);
        EXPECT_EQ(whole.count_nonzero().item<std::int64_t>(), 65 * 101);
        const at::Tensor found = whole.narrow(0, 2, 65).narrow(1, 5, 101);
        EXPECT_LT(error(found.to(at::kFloat), a.to(at::kFloat).mm(b.to(at::kFloat))), 4e-3);
        const int threads = at::get_num_threads();
        for (const int others : {1, 3}) {
            at::set_num_threads(others);
            at::Tensor again = at::zeros({65, 101}, at::kBFloat16);
            matmul(again, a, b, 0);
            EXPECT_TRUE(again.equal(found));
        }
        at::set_num_threads(threads);
    }
}

TEST(Matmul, ASumOfNothingIsNothing) {
    at::Tensor out = at::full({40, 48}, 3, at::kBFloat16);
    matmul(out, at::empty({40, 0}, at::kBFloat16), at::empty({0, 48}, at::kBFloat16), 0);
    EXPECT_EQ(out.count_nonzero().item<std::int64_t>(), 0);
    at::Tensor none = at::empty({40, 0}, at::kBFloat16);
    matmul(none, at::ones({40, 8}, at::kBFloat16), at::empty({8, 0}, at::kBFloat16), 0);
}

// Compares each frequency with the formulas of Llama 3's report and of "linear" scaling.
TEST(Rope, ScaledFrequenciesAreTheFormulas) {
    using Kind = spec::RopeScaling::Kind;
    const std::int64_t D = 32;
    const auto angle = [&](const spec::RopeScaling& scaling, int i) {
        const RopeTable table = rope_table(2, D, 10000.0, scaling, at::kDouble);
        return std::atan2(table.sin_TE[1][i].item<double>(), table.cos_TE[1][i].item<double>());
    };
    const spec::RopeScaling waves{Kind::Wavelength, 8, 1, 4, 64};
    for (int i = 0; i < D / 2; ++i) {
        const double plain = std::pow(10000.0, -2.0 * i / D), wave = 2 * M_PI / plain;
        const double smooth = (64 / wave - 1) / 3;
        const double expected = wave < 16   ? plain
                                : wave > 64 ? plain / 8
                                            : (1 - smooth) * plain / 8 + smooth * plain;
        EXPECT_NEAR(angle({}, i), plain, 1e-14);
        EXPECT_NEAR(angle({Kind::Linear, 3}, i), plain / 3, 1e-14);
        EXPECT_NEAR(angle(waves, i), expected, 1e-14);
    }
}

at::Tensor turned(const at::Tensor& x_BTHD, const RopeTable& table) {
    const auto half = x_BTHD.chunk(2, -1);
    const at::Tensor cos = table.cos_TE.unsqueeze(1), sin = table.sin_TE.unsqueeze(1);
    return at::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1);
}

struct AttentionCase {
    std::int64_t heads, kv_heads, positions, dim;
    AttentionRule rule;
};

at::Tensor attention_formula(const at::Tensor& qkv_BTP, const RopeTable& table,
                             const AttentionCase& c) {
    const std::int64_t Q = c.heads / c.kv_heads;
    const auto parts =
        qkv_BTP.unflatten(2, {c.kv_heads, Q + 2, c.dim}).split_with_sizes({Q, 1, 1}, 3);
    const at::Tensor q = turned(parts[0].flatten(2, 3), table).transpose(1, 2),
                     k = turned(parts[1].squeeze(3), table).transpose(1, 2).repeat_interleave(Q, 1),
                     v = parts[2].squeeze(3).transpose(1, 2).repeat_interleave(Q, 1);
    const double scale = c.rule.scale > 0 ? c.rule.scale : 1 / std::sqrt(c.dim);
    at::Tensor score = q.matmul(k.transpose(2, 3)) * scale;
    if (c.rule.soft_cap > 0) score = c.rule.soft_cap * at::tanh(score / c.rule.soft_cap);
    at::Tensor hidden = at::ones({c.positions, c.positions}, at::kBool).triu(1);
    if (c.rule.window > 0) hidden = hidden.logical_or(at::ones_like(hidden).tril(-c.rule.window));
    const at::Tensor o = score.masked_fill(hidden, -INFINITY).softmax(-1).matmul(v);
    return o.transpose(1, 2).flatten(2);
}

// Tests rope and attention together, because rope produces attention's layout.
TEST(Attention, BackwardIsAutograds) {
    // one thread, because several would wait for each other on a busy machine
    at::set_num_threads(1);
    const AttentionCase cases[] = {{6, 2, 37, 10, {}},
                                   {3, 3, 5, 6, {}},
                                   {4, 1, 65, 16, {}},
                                   {2, 2, 200, 66, {}},
                                   {2, 1, 300, 8, {.window = 70}},
                                   {2, 2, 130, 4, {.window = 1}},
                                   {4, 2, 150, 6, {0.7, 1.5, 33}},
                                   {2, 1, 301, 6, {0.4, 1.5, 0}},
                                   {2, 2, 33, 6, {0.4, 1.5, 400}}};
    for (const AttentionCase& c : cases) {
        const at::Tensor qkv = random({3, c.positions, (c.heads + 2 * c.kv_heads) * c.dim}),
                         d_o = random({3, c.positions, c.heads * c.dim});
        const RopeTable table = rope_table(c.positions, c.dim, 10000.0, {}, at::kDouble);
        const at::Tensor qkv_a = leaf(qkv), o_BTA = attention_formula(qkv_a, table, c);
        o_BTA.backward(d_o);
        AttentionSaved saved;
        expect_close(attention(rope(qkv, c.kv_heads, table), c.rule, saved), o_BTA.detach(), "o");
        expect_close(rope_backward(attention_backward(d_o, saved), table, at::kDouble),
                     qkv_a.grad(), "dqkv");
    }
}

TEST(CrossEntropy, SoftCapIsAutograds) {
    const at::Tensor x = 2 * random({41, 5}), w = random({11, 5}), targets = at::randint(11, {41});
    const at::Tensor xa = leaf(x), wa = leaf(w), capped = 1.5 * (xa.matmul(wa.t()) / 1.5).tanh();
    const at::Tensor loss_a = at::cross_entropy_loss(capped, targets, {}, at::Reduction::Sum) * 0.7;
    loss_a.backward();
    const at::Tensor dw = at::zeros_like(w);
    CrossEntropySaved saved;
    const at::Tensor loss = linear_cross_entropy(x, {w, 1.5}, targets, 0.7, {dw, Sum::Add}, saved);
    EXPECT_NEAR(loss.item<double>(), loss_a.item<double>(), 1e-12 * loss_a.item<double>());
    EXPECT_NEAR(0.7 * linear_cross_entropy_value(x, {w, 1.5}, targets).item<double>(),
                loss_a.item<double>(), 1e-12 * loss_a.item<double>());
    expect_close(saved.dx_MC, xa.grad(), "dx");
    expect_close(dw, wa.grad(), "dw");
    expect_close(logits(x, {w, 1.5}), capped.detach(), "logits");
}

TEST(CrossEntropy, LabelSmoothingAndZLossAreAutograds) {
    for (const double soft_cap : {0.0, 1.5})
        for (const LossTerms& terms :
             {LossTerms{0.2, 0}, LossTerms{0, 0.3}, LossTerms{0.1, 0.05}}) {
            const at::Tensor x = 2 * random({41, 5}), w = random({11, 5});
            at::Tensor targets = at::randint(11, {41});
            targets.index_put_({at::tensor({3, 40})}, at::tensor(kIgnored));
            const at::Tensor xa = leaf(x), wa = leaf(w);
            at::Tensor logits = xa.matmul(wa.t());
            if (soft_cap > 0) logits = soft_cap * (logits / soft_cap).tanh();
            const at::Tensor log_sums = logits.logsumexp(1) * targets.ne(kIgnored);
            const at::Tensor loss_a =
                0.7 * (at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, kIgnored,
                                              terms.label_smoothing) +
                       terms.z_loss * log_sums.square().sum());
            loss_a.backward();
            const at::Tensor dw = at::zeros_like(w);
            CrossEntropySaved saved;
            const Head head{w, soft_cap, {}, terms};
            const at::Tensor loss =
                linear_cross_entropy(x, head, targets, 0.7, {dw, Sum::Add}, saved);
            EXPECT_NEAR(loss.item<double>(), loss_a.item<double>(), 1e-12 * loss_a.item<double>());
            expect_close(saved.dx_MC, xa.grad(), "dx");
            expect_close(dw, wa.grad(), "dw");
        }
}

// Returns what a teacher of random logits predicts at a temperature.
TeacherRows random_teacher(std::int64_t rows, std::int64_t vocab, std::int64_t k, double weight,
                           double temperature) {
    const auto [log_probs, ids] =
        (2 * random({rows, vocab}) / temperature).log_softmax(1).topk(k, 1);
    return {ids, log_probs, weight, temperature, at::zeros({rows}, at::kDouble)};
}

// The formula of teacher.hpp, with the rest as one more class.
at::Tensor divergence_formula(const at::Tensor& logits, const TeacherRows& teacher) {
    const at::Tensor log_p = (logits / teacher.temperature).log_softmax(1);
    const at::Tensor p = log_p.exp().gather(1, teacher.ids_MK), q = teacher.log_probs_MK.exp();
    const at::Tensor known = (q * (teacher.log_probs_MK - p.log())).sum(1);
    if (teacher.ids_MK.size(1) == logits.size(1)) return known;
    const at::Tensor other = at::ones_like(logits).scatter(1, teacher.ids_MK, 0);
    const at::Tensor p_rest = (log_p.exp() * other).sum(1), q_rest = 1 - q.sum(1);
    return known + q_rest * (q_rest.log() - p_rest.log());
}

TEST(CrossEntropy, ATeachersDivergenceIsAutograds) {
    for (const std::int64_t k : {1, 4, 11})
        for (const auto& [weight, temperature, soft_cap] :
             {std::tuple(0.3, 1.0, 0.0), std::tuple(1.0, 2.5, 1.5), std::tuple(0.6, 0.5, 0.0)}) {
            const at::Tensor x = 2 * random({41, 5}), w = random({11, 5});
            at::Tensor targets = at::randint(11, {41});
            targets.index_put_({at::tensor({3, 40})}, at::tensor(kIgnored));
            const TeacherRows teacher = random_teacher(41, 11, k, weight, temperature);
            const at::Tensor xa = leaf(x), wa = leaf(w);
            at::Tensor logits = xa.matmul(wa.t());
            if (soft_cap > 0) logits = soft_cap * (logits / soft_cap).tanh();
            const at::Tensor divergence =
                (divergence_formula(logits, teacher) * targets.ne(kIgnored)).sum();
            const at::Tensor loss_a =
                0.7 * ((1 - weight) * at::cross_entropy_loss(logits, targets, {},
                                                             at::Reduction::Sum, kIgnored, 0.1) +
                       weight * temperature * temperature * divergence);
            loss_a.backward();
            const at::Tensor dw = at::zeros_like(w);
            CrossEntropySaved saved;
            const Head head{w, soft_cap, {}, LossTerms{0.1, 0}, teacher};
            const at::Tensor loss =
                linear_cross_entropy(x, head, targets, 0.7, {dw, Sum::Add}, saved);
            EXPECT_NEAR(loss.item<double>(), loss_a.item<double>(), 1e-12 * loss_a.item<double>());
            EXPECT_NEAR(teacher.divergence_M.sum().item<double>(), divergence.item<double>(),
                        1e-12 * divergence.item<double>());
            expect_close(saved.dx_MC, xa.grad(), "dx");
            expect_close(dw, wa.grad(), "dw");
        }
}

TEST(CrossEntropy, AModelThatPredictsAsItsTeacherHasNoDivergenceAndNoGradient) {
    const at::Tensor x = 2 * random({41, 5}), w = random({11, 5}), targets = at::randint(11, {41});
    for (const std::int64_t k : {1, 4, 11}) {
        const TopTokens best = linear_top_tokens(x, {w}, k, 2);
        const auto [value, id] = (x.matmul(w.t()) / 2).log_softmax(1).topk(k, 1);
        EXPECT_TRUE(best.ids_MK.equal(id));
        expect_close(best.log_probs_MK, value, "log-probabilities");
        const TeacherRows teacher{best.ids_MK, best.log_probs_MK, 1, 2,
                                  at::zeros({41}, at::kDouble)};
        CrossEntropySaved saved;
        const Head head{w, 0, {}, {}, teacher};
        EXPECT_NEAR(linear_cross_entropy(x, head, targets, 1, {}, saved).item<double>(), 0, 1e-12);
        EXPECT_LT(saved.dx_MC.abs().max().item<double>(), 1e-12);
    }
}

TEST(CrossEntropy, BackwardIsAutograds) {
    for (const std::int64_t vocab : {1, 11, 500'009}) {  // the last size takes several blocks
        const at::Tensor x = random({41, 5}), w = random({vocab, 5});
        at::Tensor targets = at::randint(vocab, {41});
        targets.index_put_({at::tensor({3, 40})}, at::tensor(kIgnored));
        const at::Tensor xa = leaf(x), wa = leaf(w);
        const at::Tensor loss_a =
            at::cross_entropy_loss(xa.matmul(wa.t()), targets, {}, at::Reduction::Sum) * 0.7;
        loss_a.backward();
        const at::Tensor dw = at::zeros_like(w);
        CrossEntropySaved saved;
        const at::Tensor loss = linear_cross_entropy(x, {w}, targets, 0.7, {dw, Sum::Add}, saved);
        EXPECT_NEAR(loss.item<double>(), loss_a.item<double>(),
                    1e-12 * std::abs(loss_a.item<double>()));
        expect_close(saved.dx_MC, xa.grad(), "dx");
        expect_close(dw, wa.grad(), "dw");
    }
}

}  // namespace
}  // namespace roll::ops
