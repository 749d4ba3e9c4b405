#include "worker/train/pipeline/step_sums.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

// Indices of a rank's numbers in the transfer. The sums over pairs begin at FirstPair, and the
// numbers of the caller at FirstExtra.
enum Index : std::int64_t {
    Loss,
    Divergence,
    Squares,
    Zeros,
    BalanceLoss,
    FullestExpert,
    FirstPair,
    FirstExtra = FirstPair + std::int64_t{PairSums::kCount}
};

at::Tensor encoded(const StepParts& parts, std::span<const double> extra) {
    const at::Tensor numbers_N = at::empty({FirstExtra + std::ssize(extra)}, at::kDouble);
    auto* const number = numbers_N.data_ptr<double>();
    number[Loss] = parts.loss;
    number[Divergence] = parts.divergence;
    number[Squares] = parts.squares;
    number[Zeros] = parts.zeros;
    number[BalanceLoss] = parts.balance;
    number[FullestExpert] = parts.fullest;
    std::ranges::copy(parts.pairs.sums, number + FirstPair);
    std::ranges::copy(extra, number + FirstExtra);
    return numbers_N;
}

// Returns the sum over a dimension, added in the order of the indices.
at::Tensor added(const at::Tensor& parts, std::int64_t dimension) {
    at::Tensor sum = parts.select(dimension, 0).clone();
    for (std::int64_t i = 1; i < parts.size(dimension); ++i) sum.add_(parts.select(dimension, i));
    return sum;
}

// Gathers a tensor over all ranks of the job. If one of the groups along an axis has all ranks,
// uses this group.
at::Tensor gather_all(const Groups& groups, const at::Tensor& own) {
    const int tp = groups.tp == nullptr ? 1 : groups.tp->size();
    const int ranks = groups.pp.size() * groups.dp.size() * tp;
    std::optional<PhaseScope> waiting;
    if (groups.clock != nullptr) waiting.emplace(*groups.clock, Phase::Agreement);
    for (Communicator* const group : {&groups.dp, &groups.pp, groups.tp})
        if (group != nullptr && group->size() == ranks)
            return gather_over(*group, own, {Site::StepSums});
    ROLL_CHECK(groups.world != nullptr && groups.world->size() == ranks);
    return gather_over(*groups.world, own, {Site::StepSums});
}

}  // namespace

StepSums step_sums(const Groups& groups, const StepParts& own, bool shared,
                   std::span<const double> extra) {
    const std::int64_t pp = groups.pp.size(), dp = groups.dp.size();
    const std::int64_t tp = groups.tp == nullptr ? 1 : groups.tp->size();
    const at::Tensor all_RN = gather_all(groups, encoded(own, extra));
    const at::Tensor all_PDTN = all_RN.view({pp, dp, tp, -1}).slice(3, 0, FirstExtra);
    // The ranks of a tensor-parallel group have the same loss, and different parts of the gradient.
    const std::int64_t tp_rank = groups.tp == nullptr ? 0 : groups.tp->rank();
    const at::Tensor loss_DN = added(all_PDTN.select(2, tp_rank), 0);
    at::Tensor gradient_PDN = added(all_PDTN, 2);
    if (shared) gradient_PDN = added(gradient_PDN, 1).unsqueeze(1);
    const at::Tensor gradient_DN = added(gradient_PDN, 0);
    const std::int64_t replica = shared ? 0 : groups.dp.rank();
    const at::Tensor loss_N = added(loss_DN, 0);
    StepSums sums;
    sums.extra_RN = all_RN.slice(1, FirstExtra);
    sums.whole = {.loss = loss_N[Loss].item<double>(),
                  .divergence = loss_N[Divergence].item<double>(),
                  .balance = loss_N[BalanceLoss].item<double>(),
                  .fullest = loss_N[FullestExpert].item<double>(),
                  .squares = gradient_DN[replica][Squares].item<double>(),
                  .zeros = gradient_DN[replica][Zeros].item<double>()};
    std::copy_n(loss_N.const_data_ptr<double>() + FirstPair, PairSums::kCount,
                sums.whole.pairs.sums.begin());
    sums.own_loss = loss_DN[groups.dp.rank()][Loss].item<double>();
    for (std::int64_t i = 0; i < gradient_DN.size(0); ++i)
        sums.squares_D.push_back(gradient_DN[i][Squares].item<double>());
    return sums;
}

}  // namespace roll::train
