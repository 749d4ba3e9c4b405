#include "worker/train/ops/rope.hpp"

#include <numbers>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

// Walks over every (batch, position, head) of qkv_BTP and its place in q, k or v.
template <class T, class Visit>
void for_heads(const at::Tensor& qkv_BTP, const Heads& heads, const Visit& visit) {
    const std::int64_t positions = qkv_BTP.size(1), dim = heads.q_BHTD.size(3);
    const std::int64_t groups = heads.k_BGTD.size(1), queries = heads.q_BHTD.size(1) / groups;
    const auto visit_row = [&](std::int64_t row) {
        T* packed = qkv_BTP.data_ptr<T>() + row * qkv_BTP.size(2);
        const std::int64_t b = row / positions, t = row % positions;
        const auto visit_head = [&](const at::Tensor& part, std::int64_t h, bool turns) {
            visit(packed, part.data_ptr<T>() + ((b * part.size(1) + h) * positions + t) * dim, t,
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

// spec::RopeScaling says what each kind does.
at::Tensor scaled(const at::Tensor& frequency_E, const spec::RopeScaling& scaling) {
    using Kind = spec::RopeScaling::Kind;
    if (scaling.kind == Kind::Plain) return frequency_E;
    const at::Tensor slow_E = frequency_E / scaling.factor;
    if (scaling.kind == Kind::Linear) return slow_E;
    const at::Tensor waves_E = scaling.original_positions * frequency_E / (2 * std::numbers::pi);
    const at::Tensor keep_E =
        ((waves_E - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)).clamp(0, 1);
    return keep_E * frequency_E + (1 - keep_E) * slow_E;
}

}  // namespace

Heads wide(const Heads& h) { return {wide(h.q_BHTD), wide(h.k_BGTD), wide(h.v_BGTD)}; }

Heads narrow(const Heads& h) { return {narrow(h.q_BHTD), narrow(h.k_BGTD), narrow(h.v_BGTD)}; }

RopeTable rope_table(std::int64_t positions, std::int64_t head_dim, double theta,
                     const spec::RopeScaling& scaling, at::ScalarType dtype) {
    const at::Tensor i_E = at::arange(0, head_dim, 2, at::kDouble) / static_cast<double>(head_dim);
    const at::Tensor angle_TE =
        at::outer(at::arange(positions, at::kDouble), scaled(at::pow(theta, -i_E), scaling));
    return {angle_TE.cos().to(dtype), angle_TE.sin().to(dtype)};
}

Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table) {
    if (!qkv_BTP.is_cpu()) return gpu::rope(qkv_BTP, kv_heads, table);
    if (is_narrow(qkv_BTP)) return narrow(rope(wide(qkv_BTP), kv_heads, table));
    const std::int64_t B = qkv_BTP.size(0), T_ = qkv_BTP.size(1), half = table.cos_TE.size(1);
    const std::int64_t q_heads = qkv_BTP.size(2) / (2 * half) - 2 * kv_heads;
    Heads heads{at::empty({B, q_heads, T_, 2 * half}, qkv_BTP.options()),
                at::empty({B, kv_heads, T_, 2 * half}, qkv_BTP.options()),
                at::empty({B, kv_heads, T_, 2 * half}, qkv_BTP.options())};
    for_float_types(qkv_BTP, [&]<class T>(T) {
        const T *cos = table.cos_TE.const_data_ptr<T>(), *sin = table.sin_TE.const_data_ptr<T>();
        for_heads<T>(qkv_BTP, heads, [&](T* packed, T* head, std::int64_t t, bool turns) {
            if (turns)
                return simd::kernels<T>().turn(head, packed, cos + t * half, sin + t * half, T{1},
                                               half);
            std::copy_n(packed, 2 * half, head);
        });
    });
    return heads;
}

at::Tensor rope_backward(const Heads& d, const RopeTable& table) {
    if (!d.q_BHTD.is_cpu()) return gpu::rope_backward(d, table);
    if (is_narrow(d.q_BHTD)) return narrow(rope_backward(wide(d), table));
    const std::int64_t B = d.q_BHTD.size(0), T_ = d.q_BHTD.size(2), half = table.cos_TE.size(1);
    const std::int64_t heads = d.q_BHTD.size(1) + 2 * d.k_BGTD.size(1);
    at::Tensor dqkv_BTP = at::empty({B, T_, heads * 2 * half}, d.q_BHTD.options());
    for_float_types(dqkv_BTP, [&]<class T>(T) {
        const T *cos = table.cos_TE.const_data_ptr<T>(), *sin = table.sin_TE.const_data_ptr<T>();
        for_heads<T>(dqkv_BTP, d, [&](T* packed, T* head, std::int64_t t, bool turns) {
            if (turns)
                return simd::kernels<T>().turn(packed, head, cos + t * half, sin + t * half, T{-1},
                                               half);
            std::copy_n(head, 2 * half, packed);
        });
    });
    return dqkv_BTP;
}

}  // namespace roll::ops
