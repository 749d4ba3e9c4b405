#include "worker/train/ops/attention.hpp"

#include <ATen/ATen.h>

namespace roll::ops {
namespace {

struct Grouped {  // N = B G batch entries of Q = H / G query heads
    at::Tensor q_NQTD;
    at::Tensor k_NQTD;
    at::Tensor v_NQTD;
};

Grouped grouped(const Heads& h) {
    const std::int64_t N = h.k_BGTD.size(0) * h.k_BGTD.size(1),
                       Q = h.q_BHTD.size(1) / h.k_BGTD.size(1);
    const std::int64_t T = h.q_BHTD.size(2), D = h.q_BHTD.size(3);
    return {h.q_BHTD.view({N, Q, T, D}), h.k_BGTD.view({N, 1, T, D}).expand({N, Q, T, D}),
            h.v_BGTD.view({N, 1, T, D}).expand({N, Q, T, D})};
}

// The sum over the queries that share a key, [N, Q, T, D] to [N, T, D].
at::Tensor of_group(const at::Tensor& d_NQTD) {
    return d_NQTD.size(1) == 1 ? d_NQTD.squeeze(1).contiguous() : d_NQTD.sum(1);
}

}  // namespace

at::Tensor attention(const Heads& heads, AttentionSaved& saved) {
    const Grouped g = grouped(heads);
    auto [out_NQTD, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        g.q_NQTD, g.k_NQTD, g.v_NQTD, /*dropout_p=*/0.0, /*is_causal=*/true);
    saved = {heads, out_NQTD, logsumexp};
    const std::int64_t B = heads.q_BHTD.size(0), G = heads.k_BGTD.size(1), T = heads.q_BHTD.size(2);
    return out_NQTD.unflatten(0, {B, G}).permute({0, 3, 1, 2, 4}).reshape({B, T, -1});
}

Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved) {
    const Grouped g = grouped(saved.heads);
    const auto sizes_k = saved.heads.k_BGTD.sizes();
    const std::int64_t B = sizes_k[0], G = sizes_k[1], T = sizes_k[2], D = sizes_k[3];
    const at::Tensor do_NQTD =
        do_BTA.view({B, T, G, -1, D}).permute({0, 2, 3, 1, 4}).reshape(g.q_NQTD.sizes());
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        do_NQTD, g.q_NQTD, g.k_NQTD, g.v_NQTD, saved.out, saved.logsumexp, 0.0, true);
    return {dq.contiguous().view(saved.heads.q_BHTD.sizes()), of_group(dk).view(sizes_k),
            of_group(dv).view(sizes_k)};
}

// The sum over the queries that share a key, [N, Q, T, D] to [N, T, D].
at::Tensor of_group(const at::Tensor& d_NQTD) {
    return d_NQTD.size(1) == 1 ? d_NQTD.squeeze(1).contiguous() : d_NQTD.sum(1);
}

}  // namespace roll::ops
