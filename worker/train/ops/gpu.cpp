#include "worker/train/ops/gpu.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/kernel.hpp"

namespace roll::ops::gpu {
namespace {

constexpr std::int64_t kQueries = 512;  // number of queries per block of scores
constexpr std::int64_t kFlashDim = 256;

// Returns x_BTHD with the pairs (i, i + D / 2) rotated by the table's angles. If `direction` is -1,
// rotates by the negated angles.
at::Tensor turned(const at::Tensor& x_BTHD, const RopeTable& table, double direction) {
    const auto half = x_BTHD.chunk(2, -1);
    const at::Tensor cos = table.cos_TE.unsqueeze(1), sin = table.sin_TE.unsqueeze(1) * direction;
    return at::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1)
        .to(x_BTHD.scalar_type());
}

bool flashes(const AttentionSaved& s) {
    const at::Tensor& q = s.heads.q_BHTD;
    const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
    return q.is_cuda() && half && s.rule.soft_cap == 0 && q.size(3) % 8 == 0 &&
           q.size(3) <= kFlashDim;
}

std::optional<std::int64_t> window_before(const AttentionRule& rule) {
    if (rule.window == 0) return std::nullopt;
    return rule.window - 1;
}

// A block of queries [begin, end), and the keys [first, last), to each of which at least one of
// these queries attends. The letters of
// shapes: Q is the number of queries, S the number of keys, R the number of query heads for each
// key head, and N = B G the number of key heads in the whole batch. The R query heads that share a
// key head become one matrix of Q R rows. So the scores are N matrix products, with the shape
// [N, Q R, S].
struct Block {
    std::int64_t begin, end, first, last;

    at::Tensor queries(const at::Tensor& x_BHTD, std::int64_t groups) const {
        return x_BHTD.slice(2, begin, end).unflatten(1, {groups, -1}).flatten(0, 1).flatten(1, 2);
    }
    at::Tensor keys(const at::Tensor& x_BGTD) const {
        return x_BGTD.slice(2, first, last).flatten(0, 1);
    }
    // put() copies `part` [N, Q R, D], a result for this block's queries, to these queries in
    // x_BHTD. add() adds `part` [N, S, D], a result for this block's keys, to these keys in x_BGTD.
    void put(const at::Tensor& x_BHTD, const at::Tensor& part) const {
        const at::Tensor to = x_BHTD.slice(2, begin, end);
        to.copy_(part.view(to.sizes()));
    }
    void add(const at::Tensor& x_BGTD, const at::Tensor& part) const {
        const at::Tensor to = x_BGTD.slice(2, first, last);
        to.add_(part.view(to.sizes()));
    }
};

std::vector<Block> blocks_of(const AttentionSaved& s) {
    std::vector<Block> blocks;
    const std::int64_t queries = s.heads.q_BHTD.size(2), window = s.rule.window;
    const std::int64_t before = s.heads.k_BGTD.size(2) - queries;
    for (std::int64_t begin = 0; begin < queries; begin += kQueries) {
        const std::int64_t end = std::min(begin + kQueries, queries);
        blocks.push_back({begin, end,
                          window == 0 ? 0 : std::max<std::int64_t>(0, begin + before - window + 1),
                          end + before});
    }
    return blocks;
}

// Returns a block's scores in float32 or float64, after the soft cap. Masked scores are -inf.
at::Tensor scores(const Block& block, const AttentionSaved& s) {
    const std::int64_t groups = s.heads.k_BGTD.size(1), rows = block.end - block.begin;
    at::Tensor score = wide(
        at::bmm(block.queries(s.heads.q_BHTD, groups), block.keys(s.heads.k_BGTD).transpose(1, 2)));
    score.mul_(s.rule.scale);
    if (s.rule.soft_cap > 0) score.div_(s.rule.soft_cap).tanh_().mul_(s.rule.soft_cap);
    // column of the first query's own key
    const std::int64_t shift = block.last - rows - block.first;
    const at::Tensor all =
        at::ones({rows, block.last - block.first}, score.options().dtype(at::kBool));
    at::Tensor hidden = all.triu(shift + 1);
    if (s.rule.window > 0) hidden = hidden.logical_or(all.tril(shift - s.rule.window));
    score.unflatten(1, {-1, rows}).masked_fill_(hidden, -INFINITY);
    return score;
}

at::Tensor of_block(const Block& block, const at::Tensor& x_BHT, std::int64_t groups) {
    return x_BHT.slice(2, block.begin, block.end)
        .unflatten(1, {groups, -1})
        .flatten(0, 1)
        .flatten(1, 2)
        .unsqueeze(-1);
}

// Returns x_MC in the type of w_C. ATen's kernels require the same type for both. The weight of a
// norm with 1 + weight is float32, even if the input is bfloat16.
at::Tensor as_weight(const at::Tensor& x_MC, const at::Tensor& w_C) {
    return x_MC.to(w_C.scalar_type());
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_MC, const at::Tensor& w_C, double eps,
                    RmsNormSaved& saved) {
    auto [y_MC, rstd] = at::_fused_rms_norm(as_weight(x_MC, w_C), w_C.sizes(), w_C, eps);
    saved = {x_MC, rstd};
    return y_MC.to(x_MC.scalar_type());
}

at::Tensor rms_norm_backward(const at::Tensor& dy_MC, const at::Tensor& w_C,
                             const RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                             const at::Tensor& dw_C) {
    auto [dx_MC, dw] =
        at::_fused_rms_norm_backward(as_weight(dy_MC, w_C), as_weight(saved.x_MC, w_C), w_C.sizes(),
                                     saved.rstd_M, w_C, {true, true});
    dw_C.copy_(dw);
    if (dresidual_MC.defined()) dx_MC.add_(dresidual_MC);
    return dx_MC.to(dy_MC.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate_up_MJ) {
    const auto half = gate_up_MJ.chunk(2, 1);
    return at::silu(half[0]).mul_(half[1]);
}

at::Tensor swiglu_backward(const at::Tensor& da_MI, const at::Tensor& gate_up_MJ) {
    const auto half = gate_up_MJ.chunk(2, 1);
    return at::cat({at::silu_backward(da_MI * half[1], half[0]), at::silu(half[0]).mul_(da_MI)}, 1);
}

Heads rope(const at::Tensor& qkv_BTP, std::int64_t kv_heads, const RopeTable& table) {
    const std::int64_t dim = 2 * table.cos_TE.size(1);
    // dimensions [B, T, G, Q + 2, D], where Q is the number of query heads per key head
    const at::Tensor all = qkv_BTP.unflatten(2, {kv_heads, -1, dim});
    const std::int64_t queries = all.size(3) - 2;
    const at::Tensor q = turned(all.narrow(3, 0, queries).flatten(2, 3), table, 1),
                     k = turned(all.select(3, queries), table, 1),
                     v = all.select(3, queries + 1).contiguous();
    return {q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)};
}

at::Tensor rope_backward(const Heads& d, const RopeTable& table) {
    const std::int64_t groups = d.k_BGTD.size(1);
    const at::Tensor dq = turned(d.q_BHTD.transpose(1, 2), table, -1).unflatten(2, {groups, -1}),
                     dk = turned(d.k_BGTD.transpose(1, 2), table, -1).unsqueeze(3),
                     dv = d.v_BGTD.transpose(1, 2).unsqueeze(3);
    return at::cat({dq, dk, dv}, 3).flatten(2);
}

at::Tensor attention(AttentionSaved& s) {
    const Heads& h = s.heads;
    if (flashes(s)) {
        auto [out_BTHD, logsumexp, rng_state, unused, debug] = at::_flash_attention_forward(
            h.q_BHTD.transpose(1, 2), h.k_BGTD.transpose(1, 2), h.v_BGTD.transpose(1, 2),
            std::nullopt, std::nullopt, h.q_BHTD.size(2), h.k_BGTD.size(2), /*dropout_p=*/0.0,
            /*is_causal=*/true, /*return_debug_mask=*/false, s.rule.scale, window_before(s.rule));
        s.out_BTA = out_BTHD.flatten(2);
        s.logsumexp_BHT = logsumexp;
        s.flash = {rng_state, unused};
        return s.out_BTA;
    }
    const at::Tensor out_BHTD = at::empty_like(h.q_BHTD, at::MemoryFormat::Contiguous);
    s.logsumexp_BHT = at::empty(out_BHTD.sizes().slice(0, 3), wide_options(out_BHTD));
    for (const Block& block : blocks_of(s)) {
        at::Tensor p = scores(block, s);
        const at::Tensor sum = at::logsumexp(p, -1, /*keepdim=*/true);
        p.sub_(sum).exp_();
        block.put(out_BHTD, at::bmm(p.to(h.v_BGTD.scalar_type()), block.keys(h.v_BGTD)));
        const at::Tensor to = s.logsumexp_BHT.slice(2, block.begin, block.end);
        to.copy_(sum.view(to.sizes()));
    }
    s.out_BTA = out_BHTD.transpose(1, 2).flatten(2);
    return s.out_BTA;
}

Heads attention_backward(const at::Tensor& do_BTA, const AttentionSaved& s) {
    const Heads& h = s.heads;
    const std::int64_t heads = h.q_BHTD.size(1);
    const at::Tensor do_BTHD = do_BTA.view_as(s.out_BTA).unflatten(2, {heads, -1});
    const at::Tensor out_BTHD = s.out_BTA.unflatten(2, {heads, -1});
    if (flashes(s)) {
        auto [dq, dk, dv] = at::_flash_attention_backward(
            do_BTHD, h.q_BHTD.transpose(1, 2), h.k_BGTD.transpose(1, 2), h.v_BGTD.transpose(1, 2),
            out_BTHD, s.logsumexp_BHT, at::Tensor(), at::Tensor(), h.q_BHTD.size(2),
            h.k_BGTD.size(2),
            /*dropout_p=*/0.0, /*is_causal=*/true, s.flash[0], s.flash[1], s.rule.scale,
            window_before(s.rule));
        return {dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)};
    }
    const std::int64_t groups = h.k_BGTD.size(1);
    const auto type = h.q_BHTD.scalar_type();
    const auto sums = wide_options(h.q_BHTD);  // type in which the blocks' results are summed
    const Heads d{at::empty_like(h.q_BHTD, at::MemoryFormat::Contiguous),
                  at::zeros(h.k_BGTD.sizes(), sums), at::zeros(h.v_BGTD.sizes(), sums)};
    const at::Tensor do_BHTD = do_BTHD.transpose(1, 2);
    const at::Tensor delta_BHT = (wide(do_BTHD) * out_BTHD).sum(-1).transpose(1, 2);
    for (const Block& block : blocks_of(s)) {
        const at::Tensor score = scores(block, s),
                         p = (score - of_block(block, s.logsumexp_BHT, groups)).exp_(),
                         dout = block.queries(do_BHTD, groups);
        block.add(d.v_BGTD, at::bmm(p.to(type).transpose(1, 2), dout));
        at::Tensor ds = wide(at::bmm(dout, block.keys(h.v_BGTD).transpose(1, 2)));
        ds.sub_(of_block(block, delta_BHT, groups)).mul_(p).mul_(s.rule.scale);
        if (s.rule.soft_cap > 0)  // clamp the score -inf of masked pairs, because 0 * inf is NaN
            ds.mul_(1 - (score / s.rule.soft_cap).clamp_min_(-1).square_());
        ds = ds.to(type);
        block.put(d.q_BHTD, at::bmm(ds, block.keys(h.k_BGTD)));
        block.add(d.k_BGTD, at::bmm(ds.transpose(1, 2), block.queries(h.q_BHTD, groups)));
    }
    return {d.q_BHTD, d.k_BGTD.to(type), d.v_BGTD.to(type)};
}

void cross_entropy(const at::Tensor& logits_RV, const at::Tensor& targets_R,
                   const at::Tensor& scale_R, const at::Tensor& loss_R) {
    const bool wide = logits_RV.scalar_type() == at::kDouble;
    const at::Tensor counts_R1 = targets_R.ne(kIgnored).unsqueeze(1),
                     target_R1 = targets_R.clamp_min(0).unsqueeze(1);
    at::Tensor log_p_RV = logits_RV.to(wide ? at::kDouble : at::kFloat).log_softmax(1);
    const at::Tensor own_R1 = log_p_RV.gather(1, target_R1);
    at::Tensor to = loss_R;
    to.copy_(own_R1.mul(counts_R1).neg_().squeeze(1));
    at::Tensor d_RV = log_p_RV.exp_();
    const at::Tensor scale_R1 = scale_R.to(d_RV.options()).unsqueeze(1);
    d_RV.scatter_add_(1, target_R1, at::full_like(own_R1, -1)).mul_(counts_R1).mul_(scale_R1);
    logits_RV.copy_(d_RV);
}

void adamw(std::span<const at::Tensor> weight, std::span<const at::Tensor> grad,
           std::span<const at::Tensor> average, std::span<const at::Tensor> square,
           const AdamW& o) {
    if (weight.empty()) return;
    const at::Tensor steps =
        at::full({}, static_cast<double>(o.steps), weight[0].options().dtype(at::kFloat));
    const std::vector<at::Tensor> each(weight.size(), steps);
    const auto list = [](std::span<const at::Tensor> tensors) {
        return at::TensorList(tensors.data(), tensors.size());
    };
    at::_fused_adamw_(list(weight), list(grad), list(average), list(square),
                      /*max_exp_avg_sqs=*/{}, each, o.lr, o.beta1, o.beta2, o.weight_decay, o.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace roll::ops::gpu
