// Compares each operator's backward with central differences of its own forward, in float64, along
// random directions. This needs no other implementation.
#include <functional>

#include <ATen/ATen.h>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/ops/random.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/ops/embedding.hpp"
#include "worker/train/ops/linear.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/rope.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::ops {
namespace {

double along(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

// Checks `d`, which backward returned as the gradient of sum(dy * f(x)).
void expect_gradient(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& x,
                     const at::Tensor& dy, const at::Tensor& d) {
    for (int i = 0; i < 3; ++i) {
        const at::Tensor way = random(x.sizes()) * 1e-5;
        const double difference = along(f(x + way) - f(x - way), dy) / 2, told = along(d, way);
        EXPECT_NEAR(difference, told, 1e-7 * d.norm().item<double>() * way.norm().item<double>());
    }
}

TEST(FiniteDifference, OfLinear) {
    const at::Tensor x = random({9, 7}), w = random({5, 7}), dy = random({9, 5});
    expect_gradient([&](const at::Tensor& v) { return ops::linear(v, w); }, x, dy,
                    linear_backward_input(dy, w));
    const at::Tensor dw = at::empty_like(w);
    linear_backward_weight(dy, x, dw, Sum::Replace);
    expect_gradient([&](const at::Tensor& v) { return ops::linear(x, v); }, w, dy, dw);
}

TEST(FiniteDifference, OfEmbedding) {
    const at::Tensor w = random({11, 4}), tokens = at::randint(11, {17}), dy = random({17, 4});
    const at::Tensor dw = at::empty_like(w);
    embedding_backward_weight(dy, tokens, dw, Sum::Replace);
    expect_gradient([&](const at::Tensor& v) { return ops::embedding(tokens, v); }, w, dy, dw);
}

TEST(FiniteDifference, OfRmsNorm) {
    const at::Tensor x = random({35, 13}), w = random({13}), dy = random({35, 13});
    RmsNormSaved saved, dropped;
    ops::rms_norm(x, w, 1e-5, saved);
    const at::Tensor dw = at::empty_like(w), dx = rms_norm_backward(dy, w, saved, {}, dw);
    const auto of_x = [&](const at::Tensor& v) { return ops::rms_norm(v, w, 1e-5, dropped); };
    const auto of_w = [&](const at::Tensor& v) { return ops::rms_norm(x, v, 1e-5, dropped); };
    expect_gradient(of_x, x, dy, dx);
    expect_gradient(of_w, w, dy, dw);
}

TEST(FiniteDifference, OfSwiglu) {
    const at::Tensor x = random({6, 2 * 19}), dy = random({6, 19});
    SwigluSaved saved, dropped;
    at::Tensor again;
    swiglu(x, saved);
    expect_gradient([&](const at::Tensor& v) { return swiglu(v, dropped); }, x, dy,
                    swiglu_backward(dy, saved, again));
}

TEST(FiniteDifference, OfRopeAndAttention) {
    const at::Tensor qkv = random({2, 21, (4 + 2 * 2) * 6}), dy = random({2, 21, 4 * 6});
    const RopeTable table = rope_table(21, 6, 10000.0, {}, at::kDouble);
    AttentionSaved saved, dropped;
    attention(rope(qkv, 2, table), {}, saved);
    const auto f = [&](const at::Tensor& v) { return attention(rope(v, 2, table), {}, dropped); };
    expect_gradient(f, qkv, dy, rope_backward(attention_backward(dy, saved), table, at::kDouble));
}

TEST(FiniteDifference, OfCrossEntropy) {
    const at::Tensor x = random({12, 5}), w = random({17, 5}), targets = at::randint(17, {12});
    targets[3] = kIgnored;
    CrossEntropySaved saved, dropped;
    const at::Tensor dw = at::empty_like(w), one = at::ones({}, at::kDouble);
    linear_cross_entropy(x, {w}, targets, 0.3, {dw, Sum::Replace}, saved);
    const auto loss = [&](const at::Tensor& x_MC, const at::Tensor& w_VC) {
        return linear_cross_entropy(x_MC, {w_VC}, targets, 0.3, {}, dropped);
    };
    expect_gradient([&](const at::Tensor& v) { return loss(v, w); }, x, one, saved.dx_MC);
    expect_gradient([&](const at::Tensor& v) { return loss(x, v); }, w, one, dw);
}

}  // namespace
}  // namespace roll::ops
