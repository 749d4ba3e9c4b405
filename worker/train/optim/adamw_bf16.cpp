#include <bit>
#include <cmath>

#include "worker/train/optim/part_blocks.hpp"
#include "worker/train/optim/update.hpp"
#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {
namespace {

// Returns 32 random bits for an element (the finalizer of MurmurHash3): 16 for each moment.
std::uint32_t random_bits(std::uint32_t key, std::uint64_t element) {
    std::uint32_t x = static_cast<std::uint32_t>(element) * 0x9E3779B1U + key +
                      static_cast<std::uint32_t>(element >> 32U) * 0x85EBCA77U;
    x = (x ^ (x >> 16U)) * 0x85EBCA6BU;
    x = (x ^ (x >> 13U)) * 0xC2B2AE35U;
    return x ^ (x >> 16U);
}

float widened(std::uint16_t number) { return std::bit_cast<float>(std::uint32_t{number} << 16U); }

// Rounds to one of the two nearest bfloat16 numbers. The probability of the number above grows
// linearly with the distance to the number below. `bits`: uniform, below 2^16.
std::uint16_t rounded(float number, std::uint32_t bits) {
    return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(number) + bits) >> 16U);
}

template <class W>
struct Factors {
    W scale, keep, beta1, beta2, step, root, eps;
    std::uint32_t key;
};

template <class W>
Factors<W> factors_of(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const auto steps = static_cast<double>(update.steps);
    return {static_cast<W>(update.grad_scale),
            static_cast<W>(1 - update.lr * update.weight_decay),
            static_cast<W>(o.beta1),
            static_cast<W>(o.beta2),
            static_cast<W>(update.lr / (1 - std::pow(o.beta1, steps))),
            static_cast<W>(std::sqrt(1 - std::pow(o.beta2, steps))),
            static_cast<W>(o.eps),
            static_cast<std::uint32_t>(update.steps) * 0xC2B2AE3DU};
}

// random_bits() for tensors of int64. `element` is not negative. Each constant factor is replaced
// by the signed number with the same 32 bits. Its absolute value is smaller, so that no product
// overflows.
at::Tensor random_bits_on_gpu(std::uint32_t key, const at::Tensor& element) {
    constexpr std::int64_t kMask = 0xFFFFFFFF;
    const auto times = [](const at::Tensor& x, std::uint32_t factor) {
        return (x * static_cast<std::int32_t>(factor));
    };
    const auto mixed = [](const at::Tensor& x, std::int64_t shift) {
        return x.bitwise_xor(x.bitwise_right_shift(shift));
    };
    at::Tensor x = times(element.bitwise_and(kMask), 0x9E3779B1U)
                       .add_(static_cast<std::int64_t>(key))
                       .add_(times(element.bitwise_right_shift(32), 0x85EBCA77U))
                       .bitwise_and_(kMask);
    x = times(mixed(x, 16), 0x85EBCA6BU).bitwise_and_(kMask);
    x = times(mixed(x, 13), 0xC2B2AE35U).bitwise_and_(kMask);
    return mixed(x, 16);
}

// rounded() for tensors. Returns bfloat16.
at::Tensor rounded_on_gpu(const at::Tensor& number, const at::Tensor& bits) {
    const at::Tensor high = number.to(at::kFloat)
                                .contiguous()
                                .view(at::kInt)
                                .to(at::kLong)
                                .add_(bits)
                                .bitwise_right_shift_(16);
    // The signed number with the same 16 bits
    return high.bitwise_and_(0xFFFF)
        .bitwise_xor_(0x8000)
        .sub_(0x8000)
        .to(at::kShort)
        .view(at::kBFloat16);
}

void adamw_bf16_on_gpu(const Update& update) {
    const Parameters& p = update.parameters;
    const ParameterSpec& spec = p.specs[update.index];
    const Factors<double> f = factors_of<double>(update);
    for (const layout::Part& block : part_blocks(parts_in(spec, p.own[update.index]), spec)) {
        const at::Tensor g = view_of(block, p.own_grad[update.index]);
        const at::Tensor average = view_of(block, update.state[0]),
                         square = view_of(block, update.state[1]);
        const at::Tensor m = average.to(g.scalar_type()).mul_(f.beta1).add_(g, 1 - f.beta1);
        const at::Tensor v = square.to(g.scalar_type()).mul_(f.beta2).addcmul_(g, g, 1 - f.beta2);
        view_of(block, p.main[update.index])
            .mul_(f.keep)
            .sub_((m * f.step).div_((v.sqrt() / f.root).add_(f.eps)));
        const at::Tensor bits = random_bits_on_gpu(f.key, indices_of(block, spec, g.device()));
        average.copy_(rounded_on_gpu(m, bits.bitwise_and(0xFFFF)));
        square.copy_(rounded_on_gpu(v, bits.bitwise_right_shift(16)));
    }
}

}  // namespace

void adamw_bf16(const Update& update) {
    const Parameters& p = update.parameters;
    if (!p.flat_weight.is_cpu()) return adamw_bf16_on_gpu(update);
    const std::size_t index = update.index;
    const ParameterSpec& spec = p.specs[index];
    auto* const average = reinterpret_cast<std::uint16_t*>(update.state[0].data_ptr());
    auto* const square = reinterpret_cast<std::uint16_t*>(update.state[1].data_ptr());
    const std::vector<layout::Part> parts = parts_in(spec, p.own[index]);
    for_updated_type(p, [&]<class S>(S) {
        using W = simd::Wide<S>;
        const Factors<W> f = factors_of<W>(update);
        const W* const grad = p.own_grad[index].template const_data_ptr<W>();
        S* const weight = updated(p, index).template data_ptr<S>();
        std::int16_t* const rest =
            p.rest.empty() ? nullptr : p.rest[index].template data_ptr<std::int16_t>();
        const auto update_row = [&](std::int64_t local, std::int64_t whole, std::int64_t count) {
            for (std::int64_t k = 0; k < count; ++k) {
                const std::int64_t i = local + k;
                const W g = grad[i] * f.scale;
                const W m = f.beta1 * widened(average[i]) + (1 - f.beta1) * g;
                const W v = f.beta2 * widened(square[i]) + (1 - f.beta2) * g * g;
                const W moved = f.step * m / (std::sqrt(v) / f.root + f.eps);
                if constexpr (std::is_same_v<S, W>) {
                    weight[i] = weight[i] * f.keep - moved;
                } else {
                    const W joined = simd::join(weight[i], rest[i]) * f.keep - moved;
                    weight[i] = simd::nearest(joined);
                    rest[i] = simd::rest_of(joined);
                }
                const std::uint32_t bits =
                    random_bits(f.key, static_cast<std::uint64_t>(whole + k));
                average[i] = rounded(static_cast<float>(m), bits & 0xFFFFU);
                square[i] = rounded(static_cast<float>(v), bits >> 16U);
            }
        };
        for_row_windows(update.state, parts, spec, [&](std::span<const layout::Part> some) {
            for_part_rows(some, spec, update_row);
        });
    });
}

}  // namespace roll::train
