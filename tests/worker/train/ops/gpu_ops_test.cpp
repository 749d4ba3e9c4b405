// Tests the operators of a GPU. On CPU tensors, in float64, they are compared with the CPU's
// kernels. Every operator is tested in float32 and bfloat16, on the CPU and, if there is one, on a
// GPU. Linked with CUDA's libraries if roll-rank-cuda is built.
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include "tests/worker/train/device/trial.hpp"
#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/ops/random.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/packed.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/rope.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::ops {
namespace {

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

// With fewer queries than keys, the queries belong to the last positions.
TEST(GpuOperators, AttentionOfTheLastQueriesIsTheCpus) {
    for (const AttentionRule& rule : {AttentionRule{}, {.window = 33}, {0.7, 1.5, 0}}) {
        const auto made = [](std::int64_t heads, std::int64_t positions) {
            return random({2, positions, heads, 6}).transpose(1, 2).contiguous();
        };
        const Heads heads{made(4, 530), made(2, 700), made(2, 700)};
        const at::Tensor d_o = random({2, 530, 4 * 6});
        AttentionSaved cpu, gpu{rule, heads, {}, {}, {}};
        const at::Tensor o = attention(heads, rule, cpu);
        gpu.rule.scale = cpu.rule.scale;
        expect_close(gpu::attention(gpu), o, "o");
        const Heads d = attention_backward(d_o, cpu), same = gpu::attention_backward(d_o, gpu);
        expect_close(same.q_BHTD, d.q_BHTD, "dq");
        expect_close(same.k_BGTD, d.k_BGTD, "dk");
        expect_close(same.v_BGTD, d.v_BGTD, "dv");
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
    gpu::cross_entropy(logits, targets, at::full({logits.size(0)}, 0.7, at::kDouble), loss_R);
    EXPECT_NEAR(loss_R.sum().item<double>() * 0.7, loss.item<double>(), 1e-10);
    expect_close(logits.mm(w), saved.dx_MC, "dx");
}

TEST(GpuOperators, UnpackedWeightsAreTheCpus) {
    constexpr std::int64_t kRows = 70, kInputs = 64 * 300 + 7;
    using spec::LoraBase;
    for (const spec::PackedForm& form :
         {spec::PackedForm{LoraBase::Int8, false, 0, kInputs},
          spec::PackedForm{LoraBase::Nf4, false, 0, kInputs},
          spec::PackedForm{LoraBase::Nf4, true, 0, kInputs},
          spec::PackedForm{LoraBase::Int8, false, 1000, 333},
          spec::PackedForm{LoraBase::Nf4, false, 1001, 6401},
          spec::PackedForm{LoraBase::Nf4, true, 64 * 255 + 13, 64 * 3}}) {
        const at::Tensor weight = random({kRows, kInputs});
        weight.narrow(0, 3, 1).zero_();
        const at::Tensor bytes = packed(form, weight, {1, {30, 40}});
        for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
            EXPECT_TRUE(gpu::unpacked(form, bytes, type).equal(unpacked(form, bytes, type)))
                << name_of(form.base) << ' ' << form.packs_scales << ' ' << form.columns;
    }
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

// Runs every case of operator_cases() on the CPU, and on a GPU if there is one.
class OnDevice
    : public testing::TestWithParam<std::tuple<at::DeviceType, at::ScalarType, OperatorCase>> {};

TEST_P(OnDevice, IsThatOfFloat64) {
    const auto& [device, type, each] = GetParam();
    if (device == at::kCUDA && (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0))
        GTEST_SKIP() << "no GPU";
    const c10::InferenceMode no_autograd;
    at::manual_seed(11);
    Trial trial(device, type, /*large=*/device == at::kCUDA);
    each.run(trial);
    EXPECT_FALSE(trial.figures().empty());
    for (const Figure& figure : trial.figures())
        EXPECT_TRUE(figure.is_good())
            << figure.what << ": error " << figure.error << ", at most " << figure.limit;
}

std::vector<at::DeviceType> devices() {
    if (at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0) return {at::kCPU, at::kCUDA};
    return {at::kCPU};
}

std::string name_of(const testing::TestParamInfo<OnDevice::ParamType>& test) {
    const auto& [device, type, each] = test.param;
    return std::string(device == at::kCUDA ? "Gpu_" : "Cpu_") + at::toString(type) + "_" +
           std::string(each.name);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnDevice,
                         testing::Combine(testing::ValuesIn(devices()),
                                          testing::Values(at::kFloat, at::kBFloat16),
                                          testing::ValuesIn(operator_cases())),
                         name_of);

}  // namespace
}  // namespace roll::ops
