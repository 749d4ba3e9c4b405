#include "worker/train/ops/qk_norm.hpp"

#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/rms_norm.hpp"

namespace roll::ops {
namespace {

constexpr std::int64_t kPartialRows = 32;  // rows per partial sum of the weights' gradients

// The layout of a row of the fused projection. Each group has `queries` query heads, a key head
// and a value head.
struct Packed {
    std::int64_t dim, groups, queries;

    Packed(const at::Tensor& qkv_MP, const at::Tensor& q_D, std::int64_t kv_heads)
        : dim(q_D.size(0)),
          groups(kv_heads),
          queries(qkv_MP.size(1) / (dim * kv_heads) - 2) {}
    std::int64_t heads() const { return groups * (queries + 2); }
};

// The heads of a projection: query heads and key heads as matrices [rows, D], and the value heads.
struct ProjectionRows {
    at::Tensor q, k, v_MG1D;
};

ProjectionRows rows_of(const at::Tensor& t_MP, std::int64_t kv_heads, std::int64_t dim) {
    const at::Tensor t_MGRD = t_MP.view({t_MP.size(0), kv_heads, -1, dim});
    const std::int64_t queries = t_MGRD.size(2) - 2;
    return {t_MGRD.narrow(2, 0, queries).reshape({-1, dim}).contiguous(),
            t_MGRD.narrow(2, queries, 1).reshape({-1, dim}).contiguous(),
            t_MGRD.narrow(2, queries + 1, 1)};
}

at::Tensor projection_of(const ProjectionRows& rows, at::IntArrayRef sizes) {
    const std::int64_t M = rows.v_MG1D.size(0), G = rows.v_MG1D.size(1), D = rows.v_MG1D.size(3);
    return at::cat({rows.q.view({M, G, -1, D}), rows.k.view({M, G, 1, D}), rows.v_MG1D}, 2)
        .view(sizes);
}

}  // namespace

at::Tensor qk_norm(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                   std::int64_t kv_heads, double eps, QkNormSaved& saved) {
    if (!qkv_MP.is_cpu()) return qk_norm_by_parts(qkv_MP, q_D, k_D, kv_heads, eps, saved);
    const Packed p(qkv_MP, q_D, kv_heads);
    saved = {qkv_MP, at::empty({qkv_MP.size(0), p.heads()}, wide_options(qkv_MP)), {}, {}};
    const at::Tensor weight_q_D = wide(q_D), weight_k_D = wide(k_D);
    at::Tensor y_MP = at::empty_like(qkv_MP);
    for_float_types(qkv_MP, [&]<class S>(S) {
        const S* in = qkv_MP.const_data_ptr<S>();
        const auto *q = weight_q_D.const_data_ptr<Wide<S>>(),
                   *k = weight_k_D.const_data_ptr<Wide<S>>();
        S* out = y_MP.data_ptr<S>();
        auto* rstd = saved.rstd_MR.data_ptr<Wide<S>>();
        const auto norm = simd::kernels<S>().rms_norm;
        for_rows(qkv_MP.size(0) * p.groups, 8, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t group = first; group < first + count; ++group) {
                const std::int64_t head = group * (p.queries + 2), key = head + p.queries;
                norm(out + head * p.dim, rstd + head, in + head * p.dim, q, eps, p.queries, p.dim);
                norm(out + key * p.dim, rstd + key, in + key * p.dim, k, eps, 1, p.dim);
                std::copy_n(in + (key + 1) * p.dim, p.dim, out + (key + 1) * p.dim);
            }
        });
    });
    return y_MP;
}

at::Tensor qk_norm_backward(const at::Tensor& dy_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, const QkNormSaved& saved, const at::Tensor& dq_D,
                            const at::Tensor& dk_D) {
    if (!dy_MP.is_cpu())
        return qk_norm_by_parts_backward(dy_MP, q_D, k_D, kv_heads, saved, dq_D, dk_D);
    const Packed p(dy_MP, q_D, kv_heads);
    const std::int64_t rows = dy_MP.size(0) * p.groups;
    const std::int64_t blocks = (rows + kPartialRows - 1) / kPartialRows;
    at::Tensor dx_MP = at::empty_like(dy_MP);
    const at::Tensor dw_K2D = at::zeros({blocks, 2, p.dim}, wide_options(dy_MP));
    const at::Tensor weight_q_D = wide(q_D), weight_k_D = wide(k_D);
    for_float_types(dy_MP, [&]<class S>(S) {
        using W = Wide<S>;
        const S *dy = dy_MP.const_data_ptr<S>(), *in = saved.qkv_MP.const_data_ptr<S>();
        const W *q = weight_q_D.const_data_ptr<W>(), *k = weight_k_D.const_data_ptr<W>(),
                *rstd = saved.rstd_MR.const_data_ptr<W>();
        S* dx = dx_MP.data_ptr<S>();
        W* dw = dw_K2D.data_ptr<W>();
        const auto backward = [&](std::int64_t head, W* dweight, const W* weight,
                                  std::int64_t count) {
            const std::int64_t at = head * p.dim;
            simd::kernels<S>().rms_norm_backward(dx + at, dweight, dy + at, weight, in + at,
                                                 nullptr, rstd + head, count, p.dim);
        };
        for_rows(blocks, 1, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t block = first; block < first + count; ++block) {
                const std::int64_t begin = block * kPartialRows,
                                   end = std::min(rows, begin + kPartialRows);
                for (std::int64_t group = begin; group < end; ++group) {
                    const std::int64_t head = group * (p.queries + 2), key = head + p.queries;
                    backward(head, dw + 2 * block * p.dim, q, p.queries);
                    backward(key, dw + (2 * block + 1) * p.dim, k, 1);
                    std::copy_n(dy + (key + 1) * p.dim, p.dim, dx + (key + 1) * p.dim);
                }
            }
        });
    });
    const at::Tensor dw_2D = dw_K2D.sum(0);
    dq_D.copy_(dw_2D[0]);
    dk_D.copy_(dw_2D[1]);
    return dx_MP;
}

at::Tensor qk_norm_by_parts(const at::Tensor& qkv_MP, const at::Tensor& q_D, const at::Tensor& k_D,
                            std::int64_t kv_heads, double eps, QkNormSaved& saved) {
    ProjectionRows rows = rows_of(qkv_MP, kv_heads, q_D.size(0));
    rows.q = rms_norm(rows.q, q_D, eps, saved.q);
    rows.k = rms_norm(rows.k, k_D, eps, saved.k);
    return projection_of(rows, qkv_MP.sizes());
}

at::Tensor qk_norm_by_parts_backward(const at::Tensor& dy_MP, const at::Tensor& q_D,
                                     const at::Tensor& k_D, std::int64_t kv_heads,
                                     const QkNormSaved& saved, const at::Tensor& dq_D,
                                     const at::Tensor& dk_D) {
    ProjectionRows rows = rows_of(dy_MP, kv_heads, q_D.size(0));
    rows.q = rms_norm_backward(rows.q, q_D, saved.q, {}, dq_D);
    rows.k = rms_norm_backward(rows.k, k_D, saved.k, {}, dk_D);
    return projection_of(rows, dy_MP.sizes());
}

}  // namespace roll::ops
