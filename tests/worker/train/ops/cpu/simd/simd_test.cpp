// Compares every vector width that this processor can run with the plain formulas, for sizes with
// every remainder.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "worker/train/ops/cpu/simd/halves.hpp"
#include "worker/train/ops/cpu/simd/width.hpp"

namespace roll::simd {
namespace {

constexpr std::int64_t kRows = 3;

std::vector<const Width*> runnable() {
    std::vector<const Width*> widths{&kWidthDefault};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        widths.push_back(&kWidthAvx2);
    const std::string best = kernel_width();
    if (best.starts_with("avx512")) widths.push_back(&kWidthAvx512);
    if (best == kWidthAvx512Bf16.name) widths.push_back(&kWidthAvx512Bf16);
    return widths;
}

template <class T>
const Kernels<T>& of(const Width& width) {
    if constexpr (std::is_same_v<T, float>)
        return *width.of_float;
    else if constexpr (std::is_same_v<T, double>)
        return *width.of_double;
    else if constexpr (std::is_same_v<T, c10::BFloat16>)
        return *width.of_bfloat16;
    else
        return *width.of_half;
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
            const double loss =
                of<T>(*width).cross_entropy(logits.data(), nullptr, target, 0.5, size);
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
                                    .root = 0.5,
                                    .eps = 1e-8};
    for (const Width* width : runnable()) {
        auto weight = random<T>(37, 5), average = random<T>(37, 6), square = random<T>(37, 7);
        const auto grad = random<T>(37, 8), before = weight, average0 = average;
        for (T& value : square) value *= value;
        const auto square0 = square;
        of<T>(*width).adamw(weight.data(), nullptr, average.data(), square.data(), grad.data(),
                            kFactors, 37);
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

// Computes one head's scores, probabilities and gradients by the plain formula, in double.
template <class T>
struct PlainAttention {
    std::vector<double> out, dq, dk, dv;

    PlainAttention(const AttentionHead<T>& h, const T* dout)
        : out(static_cast<std::size_t>(h.queries * h.dim)),
          dq(out),
          dk(static_cast<std::size_t>(h.keys * h.dim)),
          dv(dk) {
        for (std::int64_t t = 0; t < h.queries; ++t) add_query(h, dout, t);
    }
    void add_query(const AttentionHead<T>& h, const T* dout, std::int64_t t) {
        const std::int64_t D = h.dim, last = t + h.keys - h.queries;
        std::vector<double> p(static_cast<std::size_t>(last) + 1), dp(p);
        double sum = 0, delta = 0;
        const auto dot = [D](const T* a, const T* b) {
            double result = 0;
            for (std::int64_t i = 0; i < D; ++i) result += double{a[i]} * b[i];
            return result;
        };
        for (std::int64_t j = h.first[t]; j <= last; ++j) {
            p[j] = std::exp(h.soft_cap *
                            std::tanh(h.scale * dot(h.q + t * D, h.k + j * D) / h.soft_cap));
            sum += p[j];
        }
        for (std::int64_t j = h.first[t]; j <= last; ++j) {
            p[j] /= sum;
            dp[j] = dot(dout + t * D, h.v + j * D);
            delta += p[j] * dp[j];
        }
        for (std::int64_t j = h.first[t]; j <= last; ++j) {
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
    struct Sizes {
        std::int64_t queries, keys, dim;
    };
    for (const auto& [queries, keys, dim] : {Sizes{1, 1, 1},
                                             {33, 33, 7},
                                             {150, 150, 40},
                                             {130, 130, 67},
                                             {1, 70, 8},
                                             {45, 171, 12},
                                             {97, 130, 7}}) {
        const std::int64_t size = queries * dim;
        const auto q = random<T>(size, 9), k = random<T>(keys * dim, 10),
                   v = random<T>(keys * dim, 11), dout = random<T>(size, 12);
        // documents of 70 positions; each position sees at most 50
        std::vector<std::int64_t> first;
        for (std::int64_t t = keys - queries; t < keys; ++t)
            first.push_back(std::max(t - t % 70, t - 49));
        const AttentionHead<T> head{q.data(), k.data(), v.data(), queries,     keys,
                                    dim,      T(0.5),   T(3),     first.data()};
        const PlainAttention<T> plain(head, dout.data());
        for (const Width* width : runnable()) {
            std::vector<T> out(q.size()), dq(out), dk(k.size()), dv(dk),
                logsumexp(static_cast<std::size_t>(queries)),
                scratch(static_cast<std::size_t>(head.scratch()), T(NAN));
            of<T>(*width).attention(head, out.data(), logsumexp.data(), dim, scratch.data());
            of<T>(*width).attention_backward(
                head, {out.data(), dout.data(), logsumexp.data(), dq.data(), dk.data(), dv.data()},
                dim, scratch.data());
            for (std::size_t i = 0; i < out.size(); ++i) {
                EXPECT_NEAR(out[i], plain.out[i], this->kLimit) << width->name;
                EXPECT_NEAR(dq[i], plain.dq[i], 10 * this->kLimit) << width->name;
            }
            for (std::size_t i = 0; i < dk.size(); ++i) {
                EXPECT_NEAR(dk[i], plain.dk[i], 10 * this->kLimit) << width->name;
                EXPECT_NEAR(dv[i], plain.dv[i], 10 * this->kLimit) << width->name;
            }
        }
    }
}

using BF16 = c10::BFloat16;

template <class S>
std::vector<S> rounded(const std::vector<float>& values) {
    return {values.begin(), values.end()};
}
template <class S>
std::vector<float> widened(const std::vector<S>& values) {
    return {values.begin(), values.end()};
}
template <class S>
std::vector<S> random_narrow(std::int64_t size, unsigned seed) {
    return rounded<S>(random<float>(size, seed));
}
template <class T>
std::vector<T> of_size(std::size_t size) {
    return std::vector<T>(size);
}
template <class S>
bool same(const std::vector<S>& a, const std::vector<S>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](S x, S y) { return x.x == y.x; });
}

TEST(Halves, AreTheNearestBfloat16AndWhatIsLost) {
    std::mt19937 generator(1);
    for (int i = 0; i < 1 << 20; ++i) {
        auto bits = static_cast<std::uint32_t>(generator());
        if (i % 4 == 0)
            bits = (bits & 0xFFFF0000U) + 0x7FFFU + static_cast<std::uint32_t>(i / 4 % 3);
        const auto number = std::bit_cast<float>(bits);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(join(nearest(number), rest_of(number))), bits);
        // skip ties and non-finite numbers
        if (!std::isfinite(number) || (bits & 0xFFFFU) == 0x8000U) continue;
        ASSERT_EQ(nearest(number).x, static_cast<BF16>(number).x) << number;
    }
}

constexpr std::int64_t kSizes[] = {1, 7, 8, 15, 16, 17, 33, 64, 71, 130};

// Compares a kernel of narrow numbers with the float kernel on widened numbers, with its results
// rounded once.
template <class S>
class Narrow : public testing::Test {};
using NarrowTypes = testing::Types<BF16, c10::Half>;
TYPED_TEST_SUITE(Narrow, NarrowTypes);

template <class S>
void compare_norms(std::int64_t size) {
    const auto all = static_cast<std::size_t>(kRows * size);
    const auto x = random_narrow<S>(kRows * size, 1), dy = random_narrow<S>(kRows * size, 2),
               past = random_narrow<S>(kRows * size, 3);
    const auto w = random<float>(size, 4), x_wide = widened(x), dy_wide = widened(dy),
               past_wide = widened(past);
    for (const Width* width : runnable()) {
        const auto& narrow = of<S>(*width);
        const auto& wide = of<float>(*width);
        auto y = of_size<S>(all), dx = y;
        auto y_wide = of_size<float>(all), dx_wide = y_wide, dw = of_size<float>(w.size()),
             dw_wide = dw, rstd = of_size<float>(kRows), rstd_wide = rstd;
        narrow.rms_norm(y.data(), rstd.data(), x.data(), w.data(), 1e-5, kRows, size);
        wide.rms_norm(y_wide.data(), rstd_wide.data(), x_wide.data(), w.data(), 1e-5, kRows, size);
        EXPECT_TRUE(same(y, rounded<S>(y_wide)) && rstd == rstd_wide) << width->name;
        narrow.rms_norm_backward(dx.data(), dw.data(), dy.data(), w.data(), x.data(), past.data(),
                                 rstd.data(), kRows, size);
        wide.rms_norm_backward(dx_wide.data(), dw_wide.data(), dy_wide.data(), w.data(),
                               x_wide.data(), past_wide.data(), rstd.data(), kRows, size);
        // not bit by bit, because compilers may fuse sums and products
        for (std::size_t i = 0; i < all; ++i)
            EXPECT_NEAR(dx[i], dx_wide[i], std::abs(dx_wide[i]) / 128 + 1e-5) << width->name;
        for (std::size_t i = 0; i < dw.size(); ++i) EXPECT_NEAR(dw[i], dw_wide[i], 1e-5);
    }
}

TYPED_TEST(Narrow, NormsAreTheFloatOnesRounded) {
    for (const std::int64_t size : kSizes) compare_norms<TypeParam>(size);
}

template <class S>
void compare_activations(std::int64_t size) {
    const auto all = static_cast<std::size_t>(kRows * size);
    const auto in = random_narrow<S>(kRows * 2 * size, 5), da = random_narrow<S>(kRows * size, 6);
    const auto cos = random<float>(size, 7), sin = random<float>(size, 8), in_wide = widened(in),
               da_wide = widened(da);
    for (const Width* width : runnable()) {
        const auto& narrow = of<S>(*width);
        const auto& wide = of<float>(*width);
        auto a = of_size<S>(all), d = of_size<S>(2 * all);
        auto a_wide = of_size<float>(all), d_wide = of_size<float>(2 * all);
        narrow.swiglu(a.data(), in.data(), kRows, size);
        wide.swiglu(a_wide.data(), in_wide.data(), kRows, size);
        EXPECT_TRUE(same(a, rounded<S>(a_wide))) << width->name;
        narrow.swiglu_backward(d.data(), a.data(), da.data(), in.data(), kRows, size);
        wide.swiglu_backward(d_wide.data(), a_wide.data(), da_wide.data(), in_wide.data(), kRows,
                             size);
        EXPECT_TRUE(same(d, rounded<S>(d_wide)) && same(a, rounded<S>(a_wide))) << width->name;
        narrow.turn(d.data(), in.data(), cos.data(), sin.data(), size);
        wide.turn(d_wide.data(), in_wide.data(), cos.data(), sin.data(), size);
        EXPECT_TRUE(same(d, rounded<S>(d_wide))) << width->name;
        narrow.turn_back(d.data(), in_wide.data(), cos.data(), sin.data(), size);
        wide.turn_back(d_wide.data(), in_wide.data(), cos.data(), sin.data(), size);
        EXPECT_TRUE(same(d, rounded<S>(d_wide))) << width->name;
    }
}

TYPED_TEST(Narrow, ActivationsAndRotationsAreTheFloatOnesRounded) {
    for (const std::int64_t size : kSizes) compare_activations<TypeParam>(size);
}

template <class S>
void compare_losses(std::int64_t size) {
    for (const Width* width : runnable()) {
        const auto& narrow = of<S>(*width);
        const auto& wide = of<float>(*width);
        auto logits = random_narrow<S>(size, 9);
        auto logits_wide = widened(logits), room = logits_wide;
        EXPECT_EQ(narrow.cross_entropy(logits.data(), room.data(), size / 2, 0.5, size),
                  wide.cross_entropy(logits_wide.data(), nullptr, size / 2, 0.5, size));
        EXPECT_TRUE(same(logits, rounded<S>(logits_wide))) << width->name;
    }
}

TYPED_TEST(Narrow, LossesAreTheFloatOnesRounded) {
    for (const std::int64_t size : kSizes) compare_losses<TypeParam>(size);
}

void compare_updates(std::int64_t size) {
    constexpr AdamWFactors kFactors{0.5, 0.99, 0.9, 0.95, 0.1, 0.5, 1e-8};
    for (const Width* width : runnable()) {
        const auto& narrow = of<BF16>(*width);
        const auto& wide = of<float>(*width);
        auto weight_wide = random<float>(size, 10), average = weight_wide, average_wide = average,
             square = of_size<float>(average.size()), square_wide = square;
        auto weight = rounded<BF16>(weight_wide);
        auto rest = of_size<std::int16_t>(weight.size());
        for (std::size_t i = 0; i < rest.size(); ++i) {
            weight[i] = nearest(weight_wide[i]);
            rest[i] = rest_of(weight_wide[i]);
        }
        const auto grad = random<float>(size, 11);
        narrow.adamw(weight.data(), rest.data(), average.data(), square.data(), grad.data(),
                     kFactors, size);
        wide.adamw(weight_wide.data(), nullptr, average_wide.data(), square_wide.data(),
                   grad.data(), kFactors, size);
        EXPECT_TRUE(average == average_wide && square == square_wide) << width->name;
        EXPECT_TRUE(same(weight, rounded<BF16>(weight_wide))) << width->name;
        for (std::size_t i = 0; i < rest.size(); ++i)
            EXPECT_EQ(join(weight[i], rest[i]), weight_wide[i]) << width->name;
    }
}

TEST(Bfloat16, UpdatesAreTheFloatOnesRounded) {
    for (const std::int64_t size : kSizes) compare_updates(size);
}

// Returns the norm of the difference, divided by the norm of `wanted`.
double apart(const std::vector<float>& a, const std::vector<float>& wanted) {
    double difference = 0, whole = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(double{a[i]} - wanted[i], 2);
        whole += std::pow(double{wanted[i]}, 2);
    }
    return std::sqrt(difference / whole);
}

// The tolerance is wider if bfloat16 itself is multiplied, because probabilities and the gradients
// of scores are then rounded too.
template <class S>
void compare_attention(std::int64_t size) {
    const std::int64_t positions = 77, dim = size;
    const auto make = [&](unsigned seed) { return random_narrow<S>(positions * dim, seed); };
    const auto q = make(12), k = make(13), v = make(14), dout = make(15);
    const auto q_wide = widened(q), k_wide = widened(k), v_wide = widened(v),
               dout_wide = widened(dout);
    const AttentionHead<S> head{q.data(), k.data(), v.data(), positions, positions,
                                dim,      0.5,      3,        nullptr};
    const AttentionHead<float> head_wide{
        q_wide.data(), k_wide.data(), v_wide.data(), positions, positions, dim, 0.5, 3, nullptr};
    for (const Width* width : runnable()) {
        auto out = of_size<S>(q.size());
        auto out_wide = of_size<float>(q.size()), dq = out_wide, dk = dq, dv = dq, dq_wide = dq,
             dk_wide = dq, dv_wide = dq, sums = of_size<float>(positions), sums_wide = sums;
        std::vector<float> scratch(static_cast<std::size_t>(head.scratch()), NAN);
        of<S>(*width).attention(head, out.data(), sums.data(), dim, scratch.data());
        of<float>(*width).attention(head_wide, out_wide.data(), sums_wide.data(), dim,
                                    scratch.data());
        const bool rounds = std::is_same_v<S, BF16> && width == &kWidthAvx512Bf16 && dim % 2 == 0;
        if (rounds)
            EXPECT_LT(std::max(apart(widened(out), out_wide), apart(sums, sums_wide)), 5e-3);
        else
            EXPECT_TRUE(same(out, rounded<S>(out_wide)) && sums == sums_wide) << width->name;
        out_wide = widened(out);
        of<S>(*width).attention_backward(
            head, {out.data(), dout.data(), sums.data(), dq.data(), dk.data(), dv.data()}, dim,
            scratch.data());
        of<float>(*width).attention_backward(head_wide,
                                             {out_wide.data(), dout_wide.data(), sums.data(),
                                              dq_wide.data(), dk_wide.data(), dv_wide.data()},
                                             dim, scratch.data());
        if (rounds)
            EXPECT_LT(std::max({apart(dq, dq_wide), apart(dk, dk_wide), apart(dv, dv_wide)}), 5e-3);
        else
            EXPECT_TRUE(dq == dq_wide && dk == dk_wide && dv == dv_wide) << width->name;
    }
}

TYPED_TEST(Narrow, AttentionIsTheFloatOneRounded) {
    for (const std::int64_t size : kSizes) compare_attention<TypeParam>(size);
}

}  // namespace
}  // namespace roll::simd
