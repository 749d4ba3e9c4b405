#include "worker/train/ops/attention.hpp"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

// Returns, for each query, the first key that it sees; empty if all queries see key 0.
std::vector<std::int64_t> first_keys(const AttentionSaved& saved) {
    const std::int64_t queries = saved.heads.q_BHTD.size(2), keys = saved.heads.k_BGTD.size(2);
    const std::int64_t window = saved.rule.window;
    std::vector<std::int64_t> first;
    if (window == 0 || window >= keys) return first;
    for (std::int64_t t = keys - queries; t < keys; ++t)
        first.push_back(std::max<std::int64_t>(0, t - window + 1));
    return first;
}

// Calls body(number, offset, head, scratch) for every query head of the batch, in parallel.
// `number` is the head's index, and `offset` is the index of the head's first output element.
template <class S, class Body>
void for_query_heads(const AttentionSaved& saved, const Body& body) {
    const Heads& h = saved.heads;
    const std::int64_t heads = h.q_BHTD.size(1), D = h.q_BHTD.size(3);
    const std::int64_t queries = h.q_BHTD.size(2), keys = h.k_BGTD.size(2);
    const std::int64_t sharing = heads / h.k_BGTD.size(1);
    const std::vector<std::int64_t> first = first_keys(saved);
    const S *q = h.q_BHTD.const_data_ptr<S>(), *k = h.k_BGTD.const_data_ptr<S>(),
            *v = h.v_BGTD.const_data_ptr<S>();
    const std::int64_t grain = 1 + (1 << 17) / (queries * keys * D);
    for_rows(h.q_BHTD.size(0) * heads, grain, [&](std::int64_t begin, std::int64_t count) {
        simd::AttentionHead<S> head{.q = nullptr,
                                    .k = nullptr,
                                    .v = nullptr,
                                    .queries = queries,
                                    .keys = keys,
                                    .dim = D,
                                    .scale = static_cast<Wide<S>>(saved.rule.scale),
                                    .soft_cap = static_cast<Wide<S>>(saved.rule.soft_cap),
                                    .first = first.empty() ? nullptr : first.data()};
        const auto scratch = std::make_unique_for_overwrite<Wide<S>[]>(head.scratch());
        for (std::int64_t n = begin; n < begin + count; ++n) {
            head.q = q + n * queries * D;
            head.k = k + n / sharing * keys * D;
            head.v = v + n / sharing * keys * D;
            body(n, (n / heads * queries * heads + n % heads) * D, head, scratch.get());
        }
    });
}

// Returns the type in which gradients of several pieces are summed.
at::ScalarType sum_type(const at::Tensor& tensor) {
    return is_narrow(tensor.scalar_type()) ? at::kFloat : tensor.scalar_type();
}

Heads part_of(const Heads& heads, const Piece& piece) {
    return {heads.q_BHTD.narrow(2, piece.query, piece.queries).contiguous(),
            heads.k_BGTD.narrow(2, piece.key, piece.keys).contiguous(),
            heads.v_BGTD.narrow(2, piece.key, piece.keys).contiguous()};
}

}  // namespace

at::Tensor attention(const Heads& heads, const AttentionRule& rule, AttentionSaved& saved,
                     const Place& room) {
    const auto sizes = heads.q_BHTD.sizes();
    const std::int64_t B = sizes[0], H = sizes[1], T_ = sizes[2], A = H * sizes[3];
    const auto options = heads.q_BHTD.options();
    saved = {rule, heads, {}, {}, {}};
    if (rule.scale == 0) saved.rule.scale = 1 / std::sqrt(static_cast<double>(sizes[3]));
    if (!heads.q_BHTD.is_cpu()) return gpu::attention(saved);
    saved.out_BTA = made_in(room, {B, T_, A}, options);
    saved.logsumexp_BHT = at::empty({B, H, T_}, wide_options(heads.q_BHTD));
    for_float_types(heads.q_BHTD, [&]<class S>(S) {
        S* out = saved.out_BTA.data_ptr<S>();
        auto* logsumexp = saved.logsumexp_BHT.data_ptr<Wide<S>>();
        for_query_heads<S>(saved, [&](std::int64_t n, std::int64_t place,
                                      const simd::AttentionHead<S>& head, Wide<S>* scratch) {
            simd::kernels<S>().attention(head, out + place, logsumexp + n * T_, A, scratch);
        });
    });
    return saved.out_BTA;
}

Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& saved) {
    if (!do_BTA.is_cpu()) return gpu::attention_backward(do_BTA, saved);
    const auto sizes_q = saved.heads.q_BHTD.sizes(), sizes_k = saved.heads.k_BGTD.sizes();
    const std::int64_t T_ = sizes_q[2], A = sizes_q[1] * sizes_q[3], size = T_ * sizes_q[3],
                       size_k = sizes_k[2] * sizes_k[3];
    const std::int64_t sizes_BHTD[] = {sizes_q[0], sizes_q[1], sizes_k[2], sizes_k[3]};
    const auto options = wide_options(do_BTA);
    const at::Tensor dq_BHTD = at::empty(sizes_q, options),
                     dk_BHTD = at::empty(sizes_BHTD, options),
                     dv_BHTD = at::empty(sizes_BHTD, options);
    for_float_types(do_BTA, [&]<class S>(S) {
        using W = Wide<S>;
        const S *out = saved.out_BTA.const_data_ptr<S>(), *dout = do_BTA.const_data_ptr<S>();
        const W* logsumexp = saved.logsumexp_BHT.const_data_ptr<W>();
        W *dq = dq_BHTD.data_ptr<W>(), *dk = dk_BHTD.data_ptr<W>(), *dv = dv_BHTD.data_ptr<W>();
        for_query_heads<S>(saved, [&](std::int64_t n, std::int64_t place,
                                      const simd::AttentionHead<S>& head, W* scratch) {
            simd::kernels<S>().attention_backward(head,
                                                  {out + place, dout + place, logsumexp + n * T_,
                                                   dq + n * size, dk + n * size_k, dv + n * size_k},
                                                  A, scratch);
        });
    });
    // Sums the gradients over the query heads of each key head
    const auto of_group = [&](const at::Tensor& d_BHTD) {
        return sizes_q[1] == sizes_k[1] ? d_BHTD : d_BHTD.unflatten(1, {sizes_k[1], -1}).sum(2);
    };
    return {dq_BHTD, of_group(dk_BHTD), of_group(dv_BHTD)};
}

std::vector<Piece> segment_pieces(std::span<const std::int64_t> starts, std::int64_t positions) {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : positions;
        pieces.push_back({starts[i], end - starts[i], starts[i], end - starts[i]});
    }
    return pieces;
}

at::Tensor attention_within(const Heads& heads, const AttentionRule& rule,
                            std::span<const Piece> pieces, PiecesSaved& saved, const Place& place) {
    saved.pieces.assign(pieces.begin(), pieces.end());
    saved.parts.resize(std::max<std::size_t>(pieces.size(), 1));
    if (pieces.empty()) return attention(heads, rule, saved.parts[0], place);
    ROLL_CHECK(heads.q_BHTD.size(0) == 1);
    const at::Tensor o_BTA =
        made_in(place, {1, heads.q_BHTD.size(2), heads.q_BHTD.size(1) * heads.q_BHTD.size(3)},
                heads.q_BHTD.options());
    for (std::size_t i = 0; i < pieces.size(); ++i)
        o_BTA.narrow(1, pieces[i].query, pieces[i].queries)
            .copy_(attention(part_of(heads, pieces[i]), rule, saved.parts[i]));
    return o_BTA;
}

Heads attention_within_backward(const at::Tensor& do_BTA, PiecesSaved saved, const Heads& whole) {
    if (saved.pieces.empty()) return attention_backward(do_BTA, saved.parts[0]);
    const bool cuts = whole.q_BHTD.defined();
    const Heads& like = cuts ? whole : saved.parts[0].heads;
    const std::int64_t positions = do_BTA.size(-2);
    const auto sized = [&](const at::Tensor& part, std::int64_t count) {
        return at::empty({1, part.size(1), count, part.size(3)}, wide_options(part));
    };
    Heads d{sized(like.q_BHTD, positions), {}, {}};
    for (const auto& [from, to] : {std::pair(&like.k_BGTD, &d.k_BGTD), {&like.v_BGTD, &d.v_BGTD}})
        *to = cuts ? at::zeros(from->sizes(), from->options().dtype(sum_type(*from)))
                   : sized(*from, positions);
    for (std::size_t i = 0; i < saved.pieces.size(); ++i) {
        const Piece& piece = saved.pieces[i];
        AttentionSaved part = std::exchange(saved.parts[i], {});
        if (cuts) part.heads = part_of(whole, piece);
        const at::Tensor do_part = do_BTA.narrow(-2, piece.query, piece.queries).contiguous();
        const Heads dpart = attention_backward(do_part, part);
        d.q_BHTD.narrow(2, piece.query, piece.queries).copy_(dpart.q_BHTD);
        const auto put = [&](const at::Tensor& all, const at::Tensor& own) {
            const at::Tensor to = all.narrow(2, piece.key, piece.keys);
            cuts ? to.add_(own) : to.copy_(own);
        };
        put(d.k_BGTD, dpart.k_BGTD);
        put(d.v_BGTD, dpart.v_BGTD);
    }
    return d;
}

}  // namespace roll::ops
