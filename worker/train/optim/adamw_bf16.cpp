#include <bit>
#include <cmath>

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

}  // namespace

void adamw_bf16(const Update& update) {
    const Parameters& p = update.parameters;
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
