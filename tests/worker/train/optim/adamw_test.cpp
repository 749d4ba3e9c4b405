// Compares a hundred updates with torch's AdamW, with the same gradients, learning rates and decay
// rule.
//
// torch has three versions on CPUs. In float32, Roll's result equals that of the fused version bit
// for bit. The other two versions take square roots with MKL, which rounds one in five of them
// wrongly, so they also differ from the fused version: an error in a root's last place moves a
// weight near 0 by thousands of its own last places.
#include <bit>
#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/optim/optimizer.hpp"

namespace roll::train {
namespace {

constexpr int kSteps = 100;
const spec::OptimizerSpec kOptions{.weight_decay = 0.1, .decays = {}};

double rate(int step) { return 1e-3 * (1 + step % 7); }
double clip(int step) { return step % 10 == 0 ? 0.3 : 1; }

// One of torch's versions of AdamW, with its own tensors.
struct Torchs {
    explicit Torchs(const std::vector<at::Tensor>& weights) {
        for (const at::Tensor& w : weights) {
            weight.push_back(w.clone());
            average.push_back(at::zeros_like(w));
            square.push_back(at::zeros_like(w));
        }
    }

    static double decay(const at::Tensor& w) { return w.dim() > 1 ? kOptions.weight_decay : 0; }

    // Makes an update with the call of torch.optim.AdamW(fused=True).
    void fused(std::size_t i, const at::Tensor& grad, double lr, int steps) {
        const at::Tensor count = at::full({}, static_cast<double>(steps), at::kFloat);
        at::_fused_adamw_({weight[i]}, {grad}, {average[i]}, {square[i]}, {}, {count}, lr,
                          kOptions.beta1, kOptions.beta2, decay(weight[i]), kOptions.eps, false,
                          false);
    }

    // Makes an update with the calls of _single_tensor_adamw in torch/optim/adam.py, in the same
    // order.
    void single(std::size_t i, const at::Tensor& grad, double lr, int steps) {
        const double correction1 = 1 - std::pow(kOptions.beta1, steps);
        const double root2 = std::sqrt(1 - std::pow(kOptions.beta2, steps));
        weight[i].mul_(1 - lr * decay(weight[i]));
        average[i].lerp_(grad, 1 - kOptions.beta1);
        square[i].mul_(kOptions.beta2).addcmul_(grad, grad, 1 - kOptions.beta2);
        weight[i].addcdiv_(average[i], (square[i].sqrt() / root2).add_(kOptions.eps),
                           -(lr / correction1));
    }

    std::vector<at::Tensor> weight, average, square;
};

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : tensors) parts.push_back(tensor.flatten());
    return at::cat(parts);
}

// Makes the same hundred updates with all three. Sizes are multiples of a vector's size, because
// torch's fused kernel computes a tensor's remainder in double.
struct Trained {
    explicit Trained(at::ScalarType dtype) {
        at::set_num_threads(1);
        at::manual_seed(3);
        spec::ModelConfig config = tiny_model(false);
        config.hidden = 32, config.head_dim = 8, config.intermediate = 48, config.vocab = 64;
        Parameters parameters = make_parameters(parameter_specs(config, whole_chunk(config)),
                                                {.seed = 5, .dtype = dtype});
        Optimizer mine(parameters, kOptions);
        Torchs by_fused(parameters.main), by_single(parameters.main);
        for (int step = 0; step < kSteps; ++step) {
            for (std::size_t i = 0; i < parameters.grad.size(); ++i) {
                parameters.grad[i].normal_(0, step % 10 == 0 ? 10.0 : 0.1);
                const at::Tensor clipped = parameters.grad[i] * clip(step);
                by_fused.fused(i, clipped, rate(step), step + 1);
                by_single.single(i, clipped, rate(step), step + 1);
            }
            mine.step(rate(step), clip(step));
        }
        ours = parameters.flat_main.clone();
        our_square = mine.state().flat(kSquare).clone();
        fused = flat(by_fused.weight), single = flat(by_single.weight);
        fused_square = flat(by_fused.square);
    }

    at::Tensor ours, our_square, fused, fused_square, single;
};

// Returns the number of float32 values between the elements of `a` and `b`.
std::int64_t ulps(const at::Tensor& a, const at::Tensor& b) {
    const auto place = [](float value) {
        const auto bits = std::int64_t{std::bit_cast<std::int32_t>(value)};
        return bits < 0 ? -(bits & 0x7fffffff) : bits;
    };
    std::int64_t worst = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i)
        worst = std::max(worst, std::abs(place(a.const_data_ptr<float>()[i]) -
                                         place(b.const_data_ptr<float>()[i])));
    return worst;
}

double worst(const at::Tensor& a, const at::Tensor& b) {
    return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().max() / b.abs().max().to(at::kDouble))
        .item<double>();
}

TEST(AdamW, AHundredUpdatesInDoubleAreTorchs) {
    const Trained t(at::kDouble);
    std::printf("float64: fused %.1e, single %.1e\n", worst(t.ours, t.fused),
                worst(t.ours, t.single));
    EXPECT_LT(worst(t.ours, t.fused), 1e-12);
    EXPECT_LT(worst(t.ours, t.single), 1e-12);
}

TEST(AdamW, AHundredUpdatesInFloatAreTorchsFusedOnesInEachLastPlace) {
    const Trained t(at::kFloat);
    std::printf("float32, units in an element's last place: fused %lld, moments %lld\n",
                static_cast<long long>(ulps(t.ours, t.fused)),
                static_cast<long long>(ulps(t.our_square, t.fused_square)));
    EXPECT_LE(ulps(t.ours, t.fused), 1);
    EXPECT_LE(ulps(t.our_square, t.fused_square), 1);
}

// Roll's result differs from the single-tensor version as little as torch's own versions differ
// from each other.
TEST(AdamW, AHundredUpdatesInFloatAreTorchsOtherOnesInTheLargestWeightsLastPlace) {
    const Trained t(at::kFloat);
    const double largest = t.single.abs().max().item<double>();
    const double ulp = std::exp2(std::floor(std::log2(largest)) - 23) / largest;
    std::printf(
        "float32, units of %.2f: ours %.2f, torch's fused %.2f; in each element's last "
        "place: ours %lld, torch's fused %lld\n",
        largest, worst(t.ours, t.single) / ulp, worst(t.fused, t.single) / ulp,
        static_cast<long long>(ulps(t.ours, t.single)),
        static_cast<long long>(ulps(t.fused, t.single)));
    EXPECT_LE(worst(t.ours, t.single), ulp);
    EXPECT_LE(ulps(t.ours, t.single), ulps(t.fused, t.single));
}

}  // namespace
}  // namespace roll::train
