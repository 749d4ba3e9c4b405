// Every vector width that this processor can run against the plain formulas; sizes leave every
// tail.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "worker/train/simd/width.hpp"

namespace roll::simd {
namespace {

constexpr std::int64_t kRows = 3;

std::vector<const Width*> runnable() {
    std::vector<const Width*> widths{&kWidthDefault};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        widths.push_back(&kWidthAvx2);
    if (std::string(kernel_width()) == "avx512") widths.push_back(&kWidthAvx512);
    return widths;
}

template <class T>
const Kernels<T>& of(const Width& width) {
    if constexpr (std::is_same_v<T, float>)
        return *width.of_float;
    else
        return *width.of_double;
}

template <class T>
std::vector<T> random(std::int64_t size, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<T> normal;
    std::vector<T> values(static_cast<std::size_t>(size));
    for (T& value : values) value = normal(generator);
    return values;
}

template <class T>
class Widths : public testing::Test {
  public:
    static constexpr double kLimit = std::is_same_v<T, float> ? 2e-5 : 1e-13;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Widths, Types);

TYPED_TEST(Widths, RmsNormIsItsFormula) {
    using T = TypeParam;
    for (const Width* width : runnable()) {
        for (std::int64_t size = 1; size < 40; ++size) {
            const auto x = random<T>(kRows * size, 1), w = random<T>(size, 2);
            std::vector<T> y(x.size()), rstd(kRows);
            of<T>(*width).rms_norm(y.data(), rstd.data(), x.data(), w.data(), 1e-5, kRows, size);
            for (std::int64_t row = 0; row < kRows; ++row) {
                double square = 0;
                for (std::int64_t i = 0; i < size; ++i)
                    square += std::pow(double{x[row * size + i]}, 2);
                const double r = 1 / std::sqrt(square / static_cast<double>(size) + 1e-5);
                for (std::int64_t i = 0; i < size; ++i)
                    EXPECT_NEAR(y[row * size + i], x[row * size + i] * r * w[i], this->kLimit)
                        << width->name;
            }
        }
    }
}

TYPED_TEST(Widths, SwigluIsItsFormula) {
    using T = TypeParam;
    for (const Width* width : runnable()) {
        for (std::int64_t size = 1; size < 40; ++size) {
            const auto in = random<T>(kRows * 2 * size, 3);
            std::vector<T> out(static_cast<std::size_t>(kRows * size));
            of<T>(*width).swiglu(out.data(), in.data(), kRows, size);
            for (std::int64_t row = 0; row < kRows; ++row) {
                for (std::int64_t i = 0; i < size; ++i) {
                    const double gate = in[row * 2 * size + i], up = in[row * 2 * size + size + i];
                    EXPECT_NEAR(out[row * size + i], gate / (1 + std::exp(-gate)) * up,
                                this->kLimit)
                        << width->name;
                }
            }
        }
    }
}

TYPED_TEST(Widths, CrossEntropyIsItsFormula) {
    using T = TypeParam;
    for (const Width* width : runnable()) {
        for (std::int64_t size = 1; size < 40; ++size) {
            auto logits = random<T>(size, 4);
            const std::vector<T> given = logits;
            const std::int64_t target = size / 2;
            double sum = 0;
            for (const T value : given) sum += std::exp(double{value});
            const double loss = of<T>(*width).cross_entropy(logits.data(), target, 0.5, size);
            EXPECT_NEAR(loss, std::log(sum) - given[target], this->kLimit) << width->name;
            for (std::int64_t i = 0; i < size; ++i)
                EXPECT_NEAR(logits[i], 0.5 * (std::exp(double{given[i]}) / sum - (i == target)),
                            this->kLimit)
                    << width->name;
        }
    }
}

TYPED_TEST(Widths, AdamWIsItsFormula) {
    using T = TypeParam;
    constexpr AdamWFactors kFactors{.grad_scale = 0.5,
                                    .keep = 0.99,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .step = 0.1,
                                    .square_scale = 2,
                                    .eps = 1e-8};
    for (const Width* width : runnable()) {
        auto weight = random<T>(37, 5), average = random<T>(37, 6), square = random<T>(37, 7);
        const auto grad = random<T>(37, 8), before = weight, average0 = average;
        for (T& value : square) value *= value;
        const auto square0 = square;
        of<T>(*width).adamw(weight.data(), average.data(), square.data(), grad.data(), kFactors,
                            37);
        for (std::size_t i = 0; i < 37; ++i) {
            const double g = 0.5 * grad[i], m = 0.9 * average0[i] + 0.1 * g,
                         v = 0.95 * square0[i] + 0.05 * g * g;
            EXPECT_NEAR(average[i], m, this->kLimit);
            EXPECT_NEAR(square[i], v, this->kLimit);
            EXPECT_NEAR(weight[i], 0.99 * before[i] - 0.1 * m / (2 * std::sqrt(v) + 1e-8),
                        this->kLimit);
        }
    }
}

// Scores, probabilities and gradients of one head by the plain formula, in double.
template <class T>
struct PlainAttention {
    std::vector<double> out, dq, dk, dv;

    PlainAttention(const AttentionHead<T>& h, const T* dout)
        : out(static_cast<std::size_t>(h.positions * h.dim)),
          dq(out),
          dk(out),
          dv(out) {
        for (std::int64_t t = 0; t < h.positions; ++t) add_position(h, dout, t);
    }
    void add_position(const AttentionHead<T>& h, const T* dout, std::int64_t t) {
        const std::int64_t D = h.dim;
        std::vector<double> p(static_cast<std::size_t>(t) + 1), dp(p);
        double sum = 0, delta = 0;
        const auto dot = [D](const T* a, const T* b) {
            double result = 0;
            for (std::int64_t i = 0; i < D; ++i) result += double{a[i]} * b[i];
            return result;
        };
        for (std::int64_t j = h.first[t]; j <= t; ++j) {
            p[j] = std::exp(h.soft_cap *
                            std::tanh(h.scale * dot(h.q + t * D, h.k + j * D) / h.soft_cap));
            sum += p[j];
        }
        for (std::int64_t j = h.first[t]; j <= t; ++j) {
            p[j] /= sum;
            dp[j] = dot(dout + t * D, h.v + j * D);
            delta += p[j] * dp[j];
        }
        for (std::int64_t j = h.first[t]; j <= t; ++j) {
            const double part = std::tanh(h.scale * dot(h.q + t * D, h.k + j * D) / h.soft_cap);
            const double ds = p[j] * (dp[j] - delta) * h.scale * (1 - part * part);
            for (std::int64_t i = 0; i < D; ++i) {
                out[t * D + i] += p[j] * h.v[j * D + i];
                dv[j * D + i] += p[j] * dout[t * D + i];
                dq[t * D + i] += ds * h.k[j * D + i];
                dk[j * D + i] += ds * h.q[t * D + i];
            }
        }
    }
};

TYPED_TEST(Widths, AttentionIsItsFormula) {
    using T = TypeParam;
    for (const auto& [positions, dim] : {std::pair{1, 1}, {33, 7}, {150, 40}, {130, 67}}) {
        const std::int64_t size = positions * dim;
        const auto q = random<T>(size, 9), k = random<T>(size, 10), v = random<T>(size, 11),
                   dout = random<T>(size, 12);
        std::vector<std::int64_t> first;  // documents of 70, each position seeing at most 50
        for (std::int64_t t = 0; t < positions; ++t) first.push_back(std::max(t - t % 70, t - 49));
        const AttentionHead<T> head{q.data(), k.data(), v.data(), positions,
                                    dim,      T(0.5),   T(3),     first.data()};
        const PlainAttention<T> plain(head, dout.data());
        for (const Width* width : runnable()) {
            std::vector<T> out(q.size()), dq(out), dk(out), dv(out),
                logsumexp(static_cast<std::size_t>(positions)),
                scratch(static_cast<std::size_t>(head.scratch()), T(NAN));
            of<T>(*width).attention(head, out.data(), logsumexp.data(), dim, scratch.data());
            of<T>(*width).attention_backward(
                head, {out.data(), dout.data(), logsumexp.data(), dq.data(), dk.data(), dv.data()},
                dim, scratch.data());
            for (std::size_t i = 0; i < out.size(); ++i) {
                EXPECT_NEAR(out[i], plain.out[i], this->kLimit) << width->name;
                EXPECT_NEAR(dq[i], plain.dq[i], 10 * this->kLimit) << width->name;
                EXPECT_NEAR(dk[i], plain.dk[i], 10 * this->kLimit) << width->name;
                EXPECT_NEAR(dv[i], plain.dv[i], 10 * this->kLimit) << width->name;
            }
        }
    }
}

}  // namespace
}  // namespace roll::simd
