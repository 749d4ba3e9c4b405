#include "worker/train/ops/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

// Calls `visit` for every (batch, position, head) of qkv_BTP, and passes the head's place in q, k
// or v. H is the element type of q, k and v.
template <class S, class H, class Visit>
void for_heads(const at::Tensor& qkv_BTP, const Heads& heads, const Visit& visit) {
    const std::int64_t positions = qkv_BTP.size(1), dim = heads.q_BHTD.size(3);
    const std::int64_t groups = heads.k_BGTD.size(1), queries = heads.q_BHTD.size(1) / groups;
    const auto visit_row = [&](std::int64_t row) {
        S* packed = qkv_BTP.data_ptr<S>() + row * qkv_BTP.size(2);
        const std::int64_t b = row / positions, t = row % positions;
        const auto visit_head = [&](const at::Tensor& part, std::int64_t h, bool turns) {
            visit(packed, part.data_ptr<H>() + ((b * part.size(1) + h) * positions + t) * dim, t,
                  turns);
            packed += dim;
        };
        for (std::int64_t g = 0; g < groups; ++g) {
            for (std::int64_t q = 0; q < queries; ++q)
                visit_head(heads.q_BHTD, g * queries + q, true);
            visit_head(heads.k_BGTD, g, true);
            visit_head(heads.v_BGTD, g, false);
        }
    };
    for_rows(qkv_BTP.size(0) * positions, 8, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t row = begin; row < begin + count; ++row) visit_row(row);
    });
}

// Returns YaRN's interpolation weight of each frequency. Weight 0 keeps the frequency, and weight 1
// divides the frequency by the scaling factor. The weights are 0 up to index `low`, and 1 from
// index `high` on. Frequency i makes theta^(-i / E) / 2 pi rotations per position.
at::Tensor yarn_slow(std::int64_t frequencies, double theta, const spec::RopeScaling& scaling) {
    const auto count = static_cast<double>(frequencies);
    const auto number_of = [&](double turns) {
        return count * std::log(scaling.original_positions / (turns * 2 * std::numbers::pi)) /
               std::log(theta);
    };
    double low = number_of(scaling.high_factor), high = number_of(scaling.low_factor);
    if (scaling.whole) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, 2 * count - 1);
    if (low == high) high += 0.001;
    return ((at::arange(frequencies, at::kDouble) - low) / (high - low)).clamp(0, 1);
}

// Returns the frequencies, scaled as documented at spec::RopeScaling.
at::Tensor scaled(const at::Tensor& frequency_E, double theta, const spec::RopeScaling& scaling,
                  std::int64_t positions) {
    using Kind = spec::RopeScaling::Kind;
    if (scaling.kind == Kind::Plain) return frequency_E;
    if (scaling.kind == Kind::Long) {
        const bool longer = positions > scaling.same_up_to();
        return frequency_E /
               at::tensor(longer ? scaling.long_factors : scaling.short_factors, at::kDouble);
    }
    const at::Tensor slow_E = frequency_E / scaling.factor;
    if (scaling.kind == Kind::Linear) return slow_E;
    if (scaling.kind == Kind::Yarn) {
        const at::Tensor share_E = yarn_slow(frequency_E.size(0), theta, scaling);
        return share_E * slow_E + (1 - share_E) * frequency_E;
    }
    const at::Tensor waves_E = scaling.original_positions * frequency_E / (2 * std::numbers::pi);
    const at::Tensor keep_E =
        ((waves_E - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)).clamp(0, 1);
    return keep_E * frequency_E + (1 - keep_E) * slow_E;
}

}  // namespace

RopeTable rope_table(std::int64_t positions, std::int64_t head_dim, double theta,
                     const spec::RopeScaling& scaling, at::ScalarType dtype) {
    const at::Tensor i_E = at::arange(0, head_dim, 2, at::kDouble) / static_cast<double>(head_dim);
    const at::Tensor angle_TE = at::outer(at::arange(positions, at::kDouble),
                                          scaled(at::pow(theta, -i_E), theta, scaling, positions));
    const double factor = scaling.attention_factor;
    return {(factor * angle_TE.cos()).to(dtype), (factor * angle_TE.sin()).to(dtype)};
}

Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table,
           const Place& place) {
    if (!qkv_BTP.is_cpu()) return gpu::rope(qkv_BTP, kv_heads, table);
    const std::int64_t B = qkv_BTP.size(0), T_ = qkv_BTP.size(1), half = table.cos_TE.size(1);
    const std::int64_t q_heads = qkv_BTP.size(2) / (2 * half) - 2 * kv_heads;
    const auto of_heads = [&](std::int64_t count) {
        return made_in(place, {B, count, T_, 2 * half}, qkv_BTP.options());
    };
    Heads heads{of_heads(q_heads), of_heads(kv_heads), of_heads(kv_heads)};
    for_float_types(qkv_BTP, [&]<class S>(S) {
        const auto *cos = table.cos_TE.const_data_ptr<Wide<S>>(),
                   *sin = table.sin_TE.const_data_ptr<Wide<S>>();
        for_heads<S, S>(qkv_BTP, heads, [&](S* packed, S* head, std::int64_t t, bool turns) {
            if (turns)
                return simd::kernels<S>().turn(head, packed, cos + t * half, sin + t * half, half);
            std::copy_n(packed, 2 * half, head);
        });
    });
    return heads;
}

at::Tensor rope_backward(const Heads& d, const RopeTable& table, at::ScalarType dtype) {
    if (!d.q_BHTD.is_cpu()) return gpu::rope_backward(d, table);
    const std::int64_t B = d.q_BHTD.size(0), T_ = d.q_BHTD.size(2), half = table.cos_TE.size(1);
    const std::int64_t heads = d.q_BHTD.size(1) + 2 * d.k_BGTD.size(1);
    at::Tensor dqkv_BTP = at::empty({B, T_, heads * 2 * half}, d.q_BHTD.options().dtype(dtype));
    for_float_types(dqkv_BTP, [&]<class S>(S) {
        using W = Wide<S>;
        const W *cos = table.cos_TE.const_data_ptr<W>(), *sin = table.sin_TE.const_data_ptr<W>();
        const simd::Kernels<S>& kernels = simd::kernels<S>();
        for_heads<S, W>(dqkv_BTP, d, [&](S* packed, W* head, std::int64_t t, bool turns) {
            if (turns) return kernels.turn_back(packed, head, cos + t * half, sin + t * half, half);
            kernels.round(packed, head, 2 * half);
        });
    });
    return dqkv_BTP;
}

}  // namespace roll::ops
