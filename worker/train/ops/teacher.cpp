#include "worker/train/ops/teacher.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::ops {
namespace {

// Smallest sum of exp(logit - maximum) over the rest (teacher.hpp), that is, over all tokens except
// the teacher's K tokens. A smaller sum is replaced by this value, so that its logarithm and its
// inverse are finite in float32.
constexpr double kLeastRest = 1e-30;

// Values of each row that are computed over the vocabulary.
struct TeacherSums {
    at::Tensor max_R = {};
    at::Tensor sum_R = {};   // sum of exp(l - maximum)
    at::Tensor rest_R = {};  // the part of sum_R that comes from tokens outside the K tokens
    at::Tensor dot_R = {};   // sum of q_k l_k over the K tokens
};

// Returns the largest logit of each row; minus infinity for a shard without tokens.
at::Tensor row_maximum(const at::Tensor& l_RV) {
    return l_RV.size(1) > 0 ? l_RV.amax(1) : at::full({l_RV.size(0)}, -INFINITY, l_RV.options());
}

// Returns TeacherSums of this shard, [R, 4], with one column per member. The sums are relative to
// the maximum of this shard. `u_RV`: this shard's logits divided by the temperature. `known_RV`:
// true for the teacher's K tokens. `id_RK`: the columns of these tokens in u_RV. `absent_RK`: true
// if another shard has the token. `q_RK`: the teacher's probabilities of the K tokens.
at::Tensor own_sums(const at::Tensor& u_RV, const at::Tensor& known_RV, const at::Tensor& id_RK,
                    const at::Tensor& absent_RK, const at::Tensor& q_RK) {
    const at::Tensor own_RN = at::zeros({u_RV.size(0), 4}, u_RV.options().dtype(at::kDouble));
    const at::Tensor max_R = row_maximum(u_RV);
    own_RN.select(1, 0).copy_(max_R);
    if (u_RV.size(1) == 0) return own_RN;
    const at::Tensor exp_RV = (u_RV - max_R.unsqueeze(1)).exp_();
    own_RN.select(1, 1).copy_(exp_RV.sum(1, false, at::kDouble));
    own_RN.select(1, 2).copy_(exp_RV.masked_fill_(known_RV, 0).sum(1, false, at::kDouble));
    const at::Tensor hit_RK = u_RV.gather(1, id_RK.masked_fill(absent_RK, 0));
    own_RN.select(1, 3).copy_((hit_RK.masked_fill_(absent_RK, 0) * q_RK).sum(1));
    return own_RN;
}

// Joins the numbers of all shards. Each shard's sums are relative to its own maximum.
TeacherSums joined_sums(const at::Tensor& all_SRN) {
    TeacherSums sums{.max_R = all_SRN.select(2, 0).amax(0)};
    sums.sum_R = at::zeros_like(sums.max_R);
    sums.rest_R = at::zeros_like(sums.max_R);
    for (std::int64_t i = 0; i < all_SRN.size(0); ++i) {
        const at::Tensor factor_R = (all_SRN[i].select(1, 0) - sums.max_R).exp_();
        sums.sum_R.add_(all_SRN[i].select(1, 1) * factor_R);
        sums.rest_R.add_(all_SRN[i].select(1, 2) * factor_R);
    }
    sums.dot_R = all_SRN.select(2, 3).sum(0);
    return sums;
}

at::Tensor column_of(const at::Tensor& number_R, const at::Tensor& like) {
    return number_R.to(like.scalar_type()).unsqueeze(1);
}

}  // namespace

VocabularyShard whole_vocabulary(std::int64_t vocab) {
    return {0, vocab, vocab, [](const at::Tensor& own_RN) { return own_RN.unsqueeze(0); }};
}

Divergence divergence(const at::Tensor& l_RV, const TeacherRows& teacher,
                      const VocabularyShard& shard) {
    const std::int64_t rows = l_RV.size(0), count = l_RV.size(1);
    const at::Tensor u_RV = l_RV / teacher.temperature, q_RK = teacher.log_probs_MK.exp();
    const at::Tensor id_RK = teacher.ids_MK - shard.begin;
    const at::Tensor absent_RK = id_RK.lt(0).logical_or_(id_RK.ge(count));
    // Writes K values per row to the columns of the K tokens. The values of tokens that other
    // shards have go to an additional column. This column is not returned.
    const auto spread = [&](at::ScalarType type, const at::Tensor& value_RK) {
        const at::Tensor spread_RV = at::zeros({rows, count + 1}, l_RV.options().dtype(type));
        spread_RV.scatter_(1, id_RK.masked_fill(absent_RK, count), value_RK.to(type));
        return spread_RV.narrow(1, 0, count);
    };
    const at::Tensor known_RV = spread(at::kBool, at::ones_like(q_RK));
    const TeacherSums sums =
        joined_sums(shard.gather(own_sums(u_RV, known_RV, id_RK, absent_RK, q_RK)));

    const at::Tensor log_sum_R = sums.sum_R.log() + sums.max_R;
    const at::Tensor rest_R = sums.rest_R.clamp_min(kLeastRest);
    const at::Tensor q_sum_R = q_RK.sum(1), q_rest_R = (1 - q_sum_R).clamp_min_(0);
    Divergence result;
    result.value_R = (q_RK * teacher.log_probs_MK).sum(1) - sums.dot_R + q_sum_R * log_sum_R +
                     at::xlogy(q_rest_R, q_rest_R) -
                     q_rest_R * (rest_R.log() + sums.max_R - log_sum_R);
    const at::Tensor exp_RV = (u_RV - column_of(sums.max_R, u_RV)).exp_();
    const at::Tensor known_grad_RV =
        exp_RV * column_of(1 / sums.sum_R, u_RV) - spread(u_RV.scalar_type(), q_RK);
    const at::Tensor rest_grad_RV = exp_RV * column_of(1 / sums.sum_R - q_rest_R / rest_R, u_RV);
    result.grad_RV = at::where(known_RV, known_grad_RV, rest_grad_RV).div_(teacher.temperature);
    return result;
}

TopTokens top_tokens(const at::Tensor& l_RV, std::int64_t k, double temperature,
                     const VocabularyShard& shard) {
    ROLL_CHECK(k <= shard.vocab);
    const at::Tensor u_RV = l_RV / temperature;
    const std::int64_t rows = u_RV.size(0), own = std::min(k, u_RV.size(1));
    const at::Tensor max_R = row_maximum(u_RV);
    const at::Tensor own_RN =
        at::full({rows, 2 + 2 * k}, -INFINITY, u_RV.options().dtype(at::kDouble));
    own_RN.select(1, 0).copy_(max_R);
    own_RN.select(1, 1).copy_((u_RV - max_R.unsqueeze(1)).exp_().sum(1, false, at::kDouble));
    if (own > 0) {
        const auto [best_RK, id_RK] = u_RV.topk(own, 1);
        own_RN.narrow(1, 2, own).copy_(best_RK);
        own_RN.narrow(1, 2 + k, own).copy_(id_RK + shard.begin);
    }
    const at::Tensor all_SRN = shard.gather(own_RN);
    const at::Tensor most_R = all_SRN.select(2, 0).amax(0);
    const at::Tensor sum_R = (all_SRN.select(2, 1) * (all_SRN.select(2, 0) - most_R).exp_()).sum(0);
    // The shards' best tokens side by side, [R, shards x k]
    const auto side_by_side = [&](std::int64_t begin) {
        return all_SRN.narrow(2, begin, k).permute({1, 0, 2}).reshape({rows, -1});
    };
    const auto [value_RK, place_RK] = side_by_side(2).topk(k, 1);
    return {side_by_side(2 + k).gather(1, place_RK).to(at::kLong),
            value_RK - (sum_R.log() + most_R).unsqueeze(1)};
}

}  // namespace roll::ops
