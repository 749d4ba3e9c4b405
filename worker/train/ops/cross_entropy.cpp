#include "worker/train/ops/cross_entropy.hpp"

#include <memory>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::ops {
namespace {

// Size of a block of logits in bytes. In measurements, larger blocks were not faster.
constexpr std::int64_t kBlockBytes = 64 << 20;

// Replaces a block's logits by the gradient of the loss times scale_R (double, on the CPU). Writes
// the loss of each row to loss_R (double).
void losses(const at::Tensor& logits_RV, const at::Tensor& targets_R, const at::Tensor& scale_R,
            const at::Tensor& loss_R) {
    const std::int64_t size = logits_RV.size(1);
    for_float_types(logits_RV, [&]<class S>(S) {
        S* logits = logits_RV.data_ptr<S>();
        const std::int64_t* targets = targets_R.const_data_ptr<std::int64_t>();
        const double* scale = scale_R.const_data_ptr<double>();
        double* loss = loss_R.data_ptr<double>();
        for_rows(logits_RV.size(0), 1, [&](std::int64_t first, std::int64_t count) {
            const auto room =
                std::make_unique_for_overwrite<Wide<S>[]>(is_narrow(logits_RV) ? size : 0);
            for (std::int64_t m = first; m < first + count; ++m) {
                if (targets[m] == kIgnored) {
                    std::fill_n(logits + m * size, size, S{0});
                    loss[m] = 0;
                } else {
                    loss[m] = simd::kernels<S>().cross_entropy(logits + m * size, room.get(),
                                                               targets[m], scale[m], size);
                }
            }
        });
    });
}

// Returns several numbers for each row of a shard's logits: the maximum, the sum of exp(logit -
// maximum), and the target's logit (0 if another shard has the target). If label smoothing or
// z-loss is used (`terms`), the fourth number is the sum of the logits.
at::Tensor statistics(const at::Tensor& l_RV, const at::Tensor& target_R, const at::Tensor& has_R,
                      const LossTerms& terms) {
    const std::int64_t numbers = terms.is_plain() ? 3 : 4;
    const at::Tensor own_RN = at::zeros({l_RV.size(0), numbers}, l_RV.options().dtype(at::kDouble));
    if (l_RV.size(1) == 0) {
        own_RN.select(1, 0).fill_(-INFINITY);
        return own_RN;
    }
    const at::Tensor max_R = l_RV.amax(1);
    const at::Tensor sum_R = (l_RV - max_R.unsqueeze(1)).exp_().sum(1, false, at::kDouble);
    const at::Tensor hit_R = l_RV.gather(1, target_R.unsqueeze(1)).squeeze(1);
    own_RN.select(1, 0).copy_(max_R);
    own_RN.select(1, 1).copy_(sum_R);
    own_RN.select(1, 2).copy_(hit_R.masked_fill(has_R.logical_not(), 0));
    if (numbers > 3) own_RN.select(1, 3).copy_(l_RV.sum(1, false, at::kDouble));
    return own_RN;
}

// Returns logits in float32 or float64 on every device, unlike wide(), which widens only on a CPU.
at::Tensor in_floats(const at::Tensor& l_RV) {
    return l_RV.scalar_type() == at::kDouble ? l_RV : l_RV.to(at::kFloat);
}

// Values over the whole vocabulary for each row of a block of logits. The loss and the softmax of
// the rows are computed from these values.
struct RowSums {
    at::Tensor max_R = {};
    at::Tensor sum_R = {};    // sum of exp(logit - maximum)
    at::Tensor hit_R = {};    // logit of the target token
    at::Tensor total_R = {};  // sum of the logits; undefined without label smoothing and z-loss
};

RowSums joined(const at::Tensor& all_SRN) {
    RowSums sums{.max_R = all_SRN.select(2, 0).amax(0)};
    sums.sum_R = at::zeros_like(sums.max_R);
    sums.hit_R = at::zeros_like(sums.max_R);
    for (std::int64_t i = 0; i < all_SRN.size(0); ++i) {
        const at::Tensor own_RN = all_SRN[i];
        sums.sum_R.add_(own_RN.select(1, 1) * (own_RN.select(1, 0) - sums.max_R).exp_());
        sums.hit_R.add_(own_RN.select(1, 2));
    }
    if (all_SRN.size(2) > 3) sums.total_R = all_SRN.select(2, 3).sum(0);
    return sums;
}

// Like losses(), but logits_RV has only this rank's shard of the vocabulary, and the loss includes
// label smoothing and z-loss (`terms`).
void losses_of_shard(const at::Tensor& logits_RV, const at::Tensor& targets_R,
                     const at::Tensor& scale_R, const at::Tensor& loss_R,
                     const VocabularyShard& shard, const LossTerms& terms) {
    const double e = terms.label_smoothing, z = terms.z_loss;
    const at::Tensor own_RV = logits_RV.narrow(1, 0, shard.count), l_RV = wide(own_RV);
    const at::Tensor ignored_R = targets_R.eq(kIgnored);
    at::Tensor target_R = targets_R - shard.begin;
    const at::Tensor has_R = target_R.ge(0).logical_and_(target_R.lt(shard.count));
    target_R.masked_fill_(has_R.logical_not(), 0);
    const auto [max_R, sum_R, hit_R, total_R] =
        joined(shard.gather(statistics(l_RV, target_R, has_R, terms)));
    const at::Tensor log_sum_R = sum_R.log() + max_R;
    at::Tensor own_R = log_sum_R - (1 - e) * hit_R;
    if (!terms.is_plain()) {
        own_R.sub_(total_R, e / static_cast<double>(shard.vocab));
        own_R.add_(log_sum_R.square(), z);
    }
    loss_R.copy_(own_R.masked_fill_(ignored_R, 0));
    if (shard.count < logits_RV.size(1))
        logits_RV.narrow(1, shard.count, logits_RV.size(1) - shard.count).zero_();
    if (shard.count == 0) return;
    const at::Tensor there_R = scale_R.to(l_RV.device());
    const auto in_type = [&](const at::Tensor& part_R) {
        return part_R.masked_fill(ignored_R, 0).to(l_RV.scalar_type()).unsqueeze(1);
    };
    at::Tensor part_R = there_R / sum_R;
    if (z != 0) part_R.mul_(1 + 2 * z * log_sum_R);
    at::Tensor grad_RV = (l_RV - max_R.to(l_RV.scalar_type()).unsqueeze(1)).exp_();
    grad_RV.mul_(in_type(part_R));
    if (e != 0) grad_RV.sub_(in_type(there_R * (e / static_cast<double>(shard.vocab))));
    grad_RV.scatter_add_(
        1, target_R.unsqueeze(1),
        has_R.to(l_RV.scalar_type()).mul_(-(1 - e) * there_R.to(l_RV.scalar_type())).unsqueeze(1));
    own_RV.copy_(grad_RV);
}

// Returns the vocabulary shard of the head.
VocabularyShard shard_of(const Head& head) {
    return head.shard ? *head.shard : whole_vocabulary(head.w_VC.size(0));
}

// Like losses_of_shard(), but with the divergence from a teacher. Writes the divergence of each row
// to teacher.divergence_M.
void losses_with_teacher(const Head& head, const at::Tensor& logits_RV, const at::Tensor& targets_R,
                         const at::Tensor& scale_R, const at::Tensor& loss_R,
                         const TeacherRows& teacher) {
    const VocabularyShard shard = shard_of(head);
    const at::Tensor own_RV = logits_RV.narrow(1, 0, shard.count);
    const at::Tensor ignored_R = targets_R.eq(kIgnored);
    auto [value_R, grad_RV] = divergence(in_floats(own_RV), teacher, shard);
    value_R.masked_fill_(ignored_R, 0);
    teacher.divergence_M.copy_(value_R);
    const double w = teacher.weight, factor = w * teacher.temperature * teacher.temperature;
    losses_of_shard(logits_RV, targets_R, scale_R * (1 - w), loss_R, shard, head.terms);
    loss_R.mul_(1 - w).add_(value_R, factor);
    const at::Tensor factor_R = (scale_R.to(grad_RV.device()) * factor).masked_fill_(ignored_R, 0);
    own_RV.add_(grad_RV.mul_(factor_R.to(grad_RV.scalar_type()).unsqueeze(1)));
}

// Replaces a block's logits by the gradient of the loss times scale_R. Writes the loss of each row
// to loss_R. `begin`: index of the block's first row among all rows of the input.
void losses_of(const Head& head, const at::Tensor& logits_RV, const at::Tensor& targets_R,
               const at::Tensor& scale_R, const at::Tensor& loss_R, std::int64_t begin) {
    if (head.teacher) {
        TeacherRows rows = *head.teacher;
        for (at::Tensor* const all : {&rows.ids_MK, &rows.log_probs_MK, &rows.divergence_M})
            *all = all->narrow(0, begin, logits_RV.size(0));
        return losses_with_teacher(head, logits_RV, targets_R, scale_R, loss_R, rows);
    }
    if (head.shard || !head.terms.is_plain())
        return losses_of_shard(logits_RV, targets_R, scale_R, loss_R, shard_of(head), head.terms);
    const auto whole = logits_RV.is_cpu() ? losses : gpu::cross_entropy;
    whole(logits_RV, targets_R, scale_R, loss_R);
}

// Number of tensors of the size of a block that the divergence from a teacher needs at once.
constexpr std::int64_t kTensorsOfTeacher = 8;

// Returns the number of rows per block of logits. All blocks have nearly the same size.
std::int64_t block_rows(const at::Tensor& x_MC, const Head& head) {
    auto bytes = static_cast<std::int64_t>(head.w_VC.size(0) * x_MC.element_size());
    if (head.teacher) bytes *= kTensorsOfTeacher;
    const std::int64_t rows = x_MC.size(0), most = std::max<std::int64_t>(1, kBlockBytes / bytes);
    const std::int64_t blocks = std::max<std::int64_t>(1, (rows + most - 1) / most);
    return std::max<std::int64_t>(1, (rows + blocks - 1) / blocks);
}

// Applies the soft cap to the logits in place. Returns the derivative of the capped logits with
// respect to the original logits; undefined if there is no cap.
at::Tensor cap(const at::Tensor& logits_RV, double soft_cap) {
    if (soft_cap == 0) return {};
    logits_RV.div_(soft_cap).tanh_();
    at::Tensor slope_RV = 1 - logits_RV.square();
    logits_RV.mul_(soft_cap);
    return slope_RV;
}

}  // namespace

at::Tensor logits(const at::Tensor& x_MC, const Head& head) {
    at::Tensor logits_MV = ops::linear(x_MC, head.w_VC);
    if (head.soft_cap > 0) logits_MV.div_(head.soft_cap).tanh_().mul_(head.soft_cap);
    return logits_MV;
}

namespace {

at::Tensor same_scale(std::int64_t rows, double scale) {
    return at::full({rows}, scale, at::TensorOptions(at::kDouble));
}

// Computes the gradients of the sum of scale_M[m] * loss(m) over the rows m. Returns the loss of
// each row.
at::Tensor forward_backward(const at::Tensor& x_MC, const Head& head, const at::Tensor& targets_M,
                            const at::Tensor& scale_M, const HeadGrad& grad,
                            CrossEntropySaved& saved, const Place& place) {
    const at::Tensor& w_VC = head.w_VC;
    const std::int64_t rows = x_MC.size(0), size = w_VC.size(0);
    const std::int64_t block = block_rows(x_MC, head);
    const at::Tensor logits_RV = made_in(place, {std::min(block, rows), size}, x_MC.options());
    const at::Tensor loss_M = at::empty({rows}, x_MC.options().dtype(at::kDouble));
    saved.dx_MC = grad.input ? at::empty_like(x_MC) : at::Tensor();
    for (std::int64_t begin = 0; begin < rows; begin += block) {
        const std::int64_t count = std::min(block, rows - begin);
        const at::Tensor logits = logits_RV.narrow(0, 0, count), x = x_MC.narrow(0, begin, count);
        matmul(logits, x, w_VC.t(), 0);
        const at::Tensor slope = cap(logits, head.soft_cap);
        losses_of(head, logits, targets_M.narrow(0, begin, count), scale_M.narrow(0, begin, count),
                  loss_M.narrow(0, begin, count), begin);
        if (slope.defined()) logits.mul_(slope);
        if (grad.input) matmul(saved.dx_MC.narrow(0, begin, count), logits, w_VC, 0);
        if (!grad.dw_VC.defined()) continue;
        linear_backward_weight(logits, x, grad.dw_VC, begin == 0 ? grad.sum : Sum::Add);
    }
    return loss_M;
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_MC, const Head& head,
                                const at::Tensor& targets_M, double scale, const HeadGrad& grad,
                                CrossEntropySaved& saved, const Place& place) {
    const at::Tensor scale_M = same_scale(x_MC.size(0), scale);
    return forward_backward(x_MC, head, targets_M, scale_M, grad, saved, place).sum() * scale;
}

void linear_cross_entropy_grad(const at::Tensor& x_MC, const Head& head,
                               const at::Tensor& targets_M, const at::Tensor& scale_M,
                               const HeadGrad& grad, CrossEntropySaved& saved, const Place& place) {
    forward_backward(x_MC, head, targets_M, scale_M, grad, saved, place);
}

at::Tensor linear_cross_entropy_rows(const at::Tensor& x_MC, const Head& head,
                                     const at::Tensor& targets_M) {
    const std::int64_t rows = x_MC.size(0), block = block_rows(x_MC, head);
    const at::Tensor loss_M = at::empty({rows}, x_MC.options().dtype(at::kDouble));
    const at::Tensor zero_M = same_scale(rows, 0);
    for (std::int64_t begin = 0; begin < rows; begin += block) {
        const std::int64_t count = std::min(block, rows - begin);
        const at::Tensor logits_RV = logits(x_MC.narrow(0, begin, count), head);
        losses_of(head, logits_RV, targets_M.narrow(0, begin, count),
                  zero_M.narrow(0, begin, count), loss_M.narrow(0, begin, count), begin);
    }
    return loss_M;
}

TopTokens linear_top_tokens(const at::Tensor& x_MC, const Head& head, std::int64_t k,
                            double temperature) {
    const std::int64_t rows = x_MC.size(0), block = block_rows(x_MC, head);
    const VocabularyShard shard = shard_of(head);
    TopTokens all{at::empty({rows, k}, x_MC.options().dtype(at::kLong)),
                  at::empty({rows, k}, x_MC.options().dtype(at::kDouble))};
    for (std::int64_t begin = 0; begin < rows; begin += block) {
        const std::int64_t count = std::min(block, rows - begin);
        const at::Tensor l_RV =
            logits(x_MC.narrow(0, begin, count), head).narrow(1, 0, shard.count);
        const TopTokens best = top_tokens(in_floats(l_RV), k, temperature, shard);
        all.ids_MK.narrow(0, begin, count).copy_(best.ids_MK);
        all.log_probs_MK.narrow(0, begin, count).copy_(best.log_probs_MK);
    }
    return all;
}

at::Tensor linear_cross_entropy_value(const at::Tensor& x_MC, const Head& head,
                                      const at::Tensor& targets_M) {
    return linear_cross_entropy_rows(x_MC, head, targets_M).sum();
}

}  // namespace roll::ops
