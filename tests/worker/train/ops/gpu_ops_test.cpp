// Tests the operators of a GPU. On CPU tensors, in float64, they are compared with the CPU's
// kernels. If there is a GPU, every operator is tested on it. Linked with CUDA's libraries if
// roll-rank-cuda is built.
#include <ATen/ATen.h>
#include <ATen/Context.h>

#include "tests/worker/train/expect.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/ops/embedding.hpp"
#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/linear.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/rope.hpp"
#include "worker/train/ops/swiglu.hpp"
#include "worker/train/optim/adamw.hpp"

namespace roll::ops {
namespace {

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

TEST(GpuOperators, SwigluIsTheCpus) {
    const at::Tensor x = 3 * random({17, 2 * 29}), da = random({17, 29});
    SwigluSaved saved;
    expect_close(gpu::swiglu(x), swiglu(x, saved), "a");
    at::Tensor again;
    expect_close(gpu::swiglu_backward(da, x), swiglu_backward(da, saved, again), "dgate_up");
    expect_close(again, gpu::swiglu(x), "a, again");
}

TEST(GpuOperators, RopeAndAttentionAreTheCpus) {
    struct Case {
        std::int64_t heads, kv_heads, positions, dim;
        AttentionRule rule;
    };
    for (const Case& c : {Case{6, 2, 37, 10, {}}, Case{2, 1, 600, 8, {}},
                          Case{4, 4, 530, 6, {.window = 33}}, Case{4, 2, 40, 6, {0.7, 1.5, 13}}}) {
        const at::Tensor qkv = random({3, c.positions, (c.heads + 2 * c.kv_heads) * c.dim}),
                         d_o = random({3, c.positions, c.heads * c.dim});
        const RopeTable table = rope_table(c.positions, c.dim, 10000.0, {}, at::kDouble);
        AttentionSaved cpu, gpu{c.rule, gpu::rope(qkv, c.kv_heads, table), {}, {}, {}};
        expect_close(gpu.heads.q_BHTD, rope(qkv, c.kv_heads, table).q_BHTD, "q");
        const at::Tensor o = attention(rope(qkv, c.kv_heads, table), c.rule, cpu);
        gpu.rule.scale = cpu.rule.scale;
        expect_close(gpu::attention(gpu), o, "o");
        expect_close(gpu.logsumexp_BHT, cpu.logsumexp_BHT, "logsumexp");
        expect_close(gpu::rope_backward(gpu::attention_backward(d_o, gpu), table),
                     rope_backward(attention_backward(d_o, cpu), table, d_o.scalar_type()), "dqkv");
    }
}

// Uses Gemma 2's soft cap and enough keys that a normalizer in bfloat16 would be off by 1 %.
TEST(GpuOperators, AttentionOfBfloat16SumsWider) {
    constexpr std::int64_t kPositions = 4608;
    at::manual_seed(1);
    const auto made = [](std::int64_t heads) {
        return random({1, kPositions, heads, 16}).to(at::kBFloat16).transpose(1, 2);
    };
    const Heads heads{made(2), made(1), made(1)};
    const at::Tensor d_o = random({1, kPositions, 2 * 16}).to(at::kBFloat16);
    AttentionSaved exact, gpu{{0.25, 50, 0}, heads, {}, {}, {}};
    const auto wider = [](const at::Tensor& x) { return x.to(at::kDouble).contiguous(); };
    const Heads same{wider(heads.q_BHTD), wider(heads.k_BGTD), wider(heads.v_BGTD)};
    const at::Tensor o = attention(same, gpu.rule, exact);
    expect_close(wider(gpu::attention(gpu)), o, "o", 1e-2);
    EXPECT_EQ(gpu.out_BTA.scalar_type(), at::kBFloat16);
    EXPECT_LT((wider(gpu.logsumexp_BHT) - exact.logsumexp_BHT).abs().max().item<double>(), 1e-2);
    const Heads d = gpu::attention_backward(d_o, gpu),
                exact_d = attention_backward(wider(d_o), exact);
    EXPECT_EQ(d.v_BGTD.scalar_type(), at::kBFloat16);
    expect_close(wider(d.q_BHTD), exact_d.q_BHTD, "dq", 1e-2);
    expect_close(wider(d.k_BGTD), exact_d.k_BGTD, "dk", 1e-2);
    expect_close(wider(d.v_BGTD), exact_d.v_BGTD, "dv", 1e-2);
}

TEST(GpuOperators, NormOfBfloat16TakesAWiderWeight) {
    const at::Tensor x = random({19, 32}).to(at::kBFloat16), w = random({32}).to(at::kFloat);
    RmsNormSaved saved, exact;
    const at::Tensor y = gpu::rms_norm(x, w, 1e-5, saved);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_EQ(saved.x_MC.scalar_type(), at::kBFloat16);
    expect_close(y.to(at::kDouble), rms_norm(x.to(at::kDouble), w.to(at::kDouble), 1e-5, exact),
                 "y", 4e-3);
}

TEST(GpuOperators, CrossEntropyIsTheCpus) {
    const at::Tensor x = random({41, 5}), w = random({211, 5});
    at::Tensor targets = at::randint(211, {41});
    targets.index_put_({at::tensor({3, 40})}, at::tensor(kIgnored));
    CrossEntropySaved saved;
    const at::Tensor loss = linear_cross_entropy(x, {w}, targets, 0.7, {}, saved);
    const at::Tensor logits = x.mm(w.t()), loss_R = at::empty({41}, at::kDouble);
    gpu::cross_entropy(logits, targets, 0.7, loss_R);
    EXPECT_NEAR(loss_R.sum().item<double>() * 0.7, loss.item<double>(), 1e-10);
    expect_close(logits.mm(w), saved.dx_MC, "dx");
}

TEST(GpuOperators, AdamwIsTheCpus) {
    const at::Tensor grad = random({37}), average = random({37}), square = random({37}).square(),
                     weight = random({37});
    const at::Tensor w = weight.clone(), m = average.clone(), v = square.clone();
    constexpr double kLr = 0.1, kDecay = 0.01;
    gpu::adamw(std::array{w}, std::array{grad}, std::array{m}, std::array{v},
               {kLr, 0.9, 0.95, kDecay, 1e-8, 7});
    simd::kernels<double>().adamw(weight.data_ptr<double>(), nullptr, average.data_ptr<double>(),
                                  square.data_ptr<double>(), grad.const_data_ptr<double>(),
                                  {.grad_scale = 1,
                                   .keep = 1 - kLr * kDecay,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .step = kLr / (1 - std::pow(0.9, 7)),
                                   .root = std::sqrt(1 - std::pow(0.95, 7)),
                                   .eps = 1e-8},
                                  37);
    expect_close(w, weight, "weight");
    expect_close(m, average, "average");
    expect_close(v, square, "square");
}

// The tests below need a GPU: they make the same calls on its tensors.
class OnGpu : public testing::TestWithParam<at::ScalarType> {
  protected:
    void SetUp() override {
        if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
            GTEST_SKIP() << "no GPU";
    }
    at::Tensor there(const at::Tensor& x) const {
        return x.to(at::TensorOptions(at::kCUDA).dtype(GetParam()));
    }
    // Rounds to the tested type, in float64 on the CPU.
    at::Tensor here(const at::Tensor& x) const { return x.to(GetParam()).to(at::kDouble); }
    void expect(const at::Tensor& gpu, const at::Tensor& cpu, const char* what) const {
        const double limit = GetParam() == at::kBFloat16 ? 3e-2 : 1e-4;
        expect_close(gpu.cpu().to(at::kDouble), cpu, what, limit);
    }
};

TEST_P(OnGpu, NormsAndSwiglu) {
    const at::Tensor x = random({71, 64}), w = random({64}), dy = random({71, 64});
    RmsNormSaved gpu, cpu;
    expect(rms_norm(there(x), there(w), 1e-5, gpu), rms_norm(here(x), here(w), 1e-5, cpu), "y");
    const at::Tensor dw_gpu = there(w), dw = at::empty_like(w);
    expect(rms_norm_backward(there(dy), there(w), gpu, {}, dw_gpu),
           rms_norm_backward(here(dy), here(w), cpu, {}, dw), "dx");
    expect(dw_gpu, dw, "dw");
    SwigluSaved swiglu_gpu, swiglu_cpu;
    expect(swiglu(there(x), swiglu_gpu), swiglu(here(x), swiglu_cpu), "a");
}

// A weight to which 1 was added is float32 for every input type.
TEST_P(OnGpu, NormWithAWiderWeight) {
    const at::Tensor x = random({71, 64}), w = random({64}), dy = random({71, 64});
    const at::Tensor wide_w = w.to(at::TensorOptions(at::kCUDA).dtype(at::kFloat));
    RmsNormSaved gpu, cpu;
    const at::Tensor y = rms_norm(there(x), wide_w, 1e-5, gpu);
    EXPECT_EQ(y.scalar_type(), GetParam());
    expect(y, rms_norm(here(x), w, 1e-5, cpu), "y");
    const at::Tensor dw_gpu = at::empty_like(wide_w), dw = at::empty_like(w);
    expect(rms_norm_backward(there(dy), wide_w, gpu, there(dy), dw_gpu),
           rms_norm_backward(here(dy), w, cpu, here(dy), dw), "dx");
    expect(dw_gpu, dw, "dw");
}

TEST_P(OnGpu, Attention) {
    for (const AttentionRule& rule : {AttentionRule{}, {.window = 70}, {.soft_cap = 1.5}}) {
        const at::Tensor qkv = random({2, 300, (4 + 2 * 2) * 32}), d_o = random({2, 300, 4 * 32});
        const RopeTable table = rope_table(300, 32, 10000.0, {}, at::kDouble);
        const RopeTable table_gpu{there(table.cos_TE), there(table.sin_TE)};
        AttentionSaved gpu, cpu;
        expect(attention(rope(there(qkv), 2, table_gpu), rule, gpu),
               attention(rope(here(qkv), 2, table), rule, cpu), "o");
        expect(
            rope_backward(attention_backward(there(d_o), gpu), table_gpu, there(d_o).scalar_type()),
            rope_backward(attention_backward(here(d_o), cpu), table, here(d_o).scalar_type()),
            "dqkv");
    }
}

TEST_P(OnGpu, HeadAndEmbedding) {
    const at::Tensor x = random({41, 32}), w = random({96, 32}), targets = at::randint(96, {41});
    CrossEntropySaved gpu, cpu;
    const at::Tensor dw_gpu = there(w), dw = at::empty_like(w), on_gpu = targets.to(at::kCUDA);
    linear_cross_entropy(there(x), {there(w)}, on_gpu, 0.5, {dw_gpu, Sum::Replace}, gpu);
    linear_cross_entropy(here(x), {here(w)}, targets, 0.5, {dw, Sum::Replace}, cpu);
    expect(gpu.dx_MC, cpu.dx_MC, "dx");
    expect(dw_gpu, dw, "dw");
    embedding_backward_weight(there(x), on_gpu, dw_gpu, Sum::Replace);
    embedding_backward_weight(here(x), targets, dw, Sum::Replace);
    expect(dw_gpu, dw, "dembedding");
}

INSTANTIATE_TEST_SUITE_P(Types, OnGpu, testing::Values(at::kFloat, at::kBFloat16));

}  // namespace
}  // namespace roll::ops
