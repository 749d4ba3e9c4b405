// The passes of TrainStep that make no update: evaluation, log-probabilities and replay.
#include <algorithm>

#include <ATen/ATen.h>

#include "worker/train/model/state_memory.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

at::Tensor TrainStep::log_probs(std::span<const Microbatch> batch) {
    const c10::InferenceMode no_autograd;
    std::vector<RankChunk> chunks = alone();
    StepTrace dropped;
    const at::Tensor log_probs_KS = execute(
        plan::forward_only(schedule_.pp, schedule_.vp, static_cast<int>(batch.size()),
                           schedule_.placing),
        chunks, {batch, {}, Returned::Sequences, most_sequences(batch)}, groups_.pp, dropped);
    sum_over(groups_.pp, log_probs_KS, {Site::Evaluation});
    return log_probs_KS;
}

// Returns this replica's part of the result of kl_sum().
KlSum TrainStep::own_kl_sum(std::span<const Microbatch> batch) {
    KlSum all;
    if (!options_.preference || !options_.preference->estimates_kl()) return all;
    std::vector<Microbatch> mismatched;
    for (const Microbatch& data : batch) mismatched.push_back(data.mismatched.at(0));
    const at::Tensor log_probs_KS = log_probs(mismatched);
    for (std::size_t k = 0; k < mismatched.size(); ++k) {
        const std::span<const double> own = row_of(log_probs_KS, k);
        for (std::size_t i = 0; i < batch[k].labels.size(); ++i)
            all.sum += own[i] - mismatched[k].references.at(i);
        all.answers += static_cast<double>(batch[k].labels.size());
    }
    return all;
}

KlSum TrainStep::kl_sum(std::span<const Microbatch> batch) {
    if (!options_.preference || !options_.preference->estimates_kl()) return {};
    const KlSum own = own_kl_sum(batch);
    const at::Tensor all = at::tensor({own.sum, own.answers}, at::kDouble);
    sum_over(groups_.dp, all, {Site::Evaluation});
    return {all[0].item<double>(), all[1].item<double>()};
}

PairSums TrainStep::sums_over_replicas(PairSums sums) {
    const at::Tensor all = at::tensor(at::ArrayRef<double>(sums.sums), at::kDouble);
    sum_over(groups_.dp, all, {Site::Evaluation});
    std::copy_n(all.const_data_ptr<double>(), sums.sums.size(), sums.sums.begin());
    return sums;
}

LossSum TrainStep::evaluate_pairs(std::span<const Microbatch> batch, double kl) {
    const at::Tensor log_probs_KS = log_probs(batch);
    PairSums sums;
    at::Tensor tokens = at::zeros({}, at::kDouble);
    for (std::size_t k = 0; k < batch.size(); ++k) {
        sums += sums_of(*options_.preference, batch[k],
                        row_of(log_probs_KS, k).first(batch[k].segments.size()), kl);
        tokens += batch[k].targets_BT.ne(ops::kIgnored).sum();
    }
    sum_over(groups_.dp, tokens, {Site::Evaluation});
    return {0, std::llround(tokens.item<double>()), sums_over_replicas(sums)};
}

LossSum TrainStep::evaluate(std::span<const Microbatch> batch, double kl) {
    if (options_.preference) return evaluate_pairs(batch, kl);
    const c10::InferenceMode no_autograd;
    // sum of the losses, number of tokens, and sum of the divergences
    at::Tensor sums_S = at::zeros({3}, at::kDouble);
    std::vector<RankChunk> chunks = alone();
    StepTrace dropped;
    const at::Tensor values =
        execute(plan::forward_only(schedule_.pp, schedule_.vp, static_cast<int>(batch.size()),
                                   schedule_.placing),
                chunks, ruled(batch, {}), groups_.pp, dropped);
    sum_over(groups_.pp, values, {Site::Evaluation});  // only the last stage's losses are not 0
    const bool teaches = options_.loss.has_teacher();
    for (std::int64_t i = 0; i < values.size(0); ++i) {
        sums_S[0] += teaches ? values[i][0] : values[i];
        if (teaches) sums_S[2] += values[i][1];
    }
    for (const Microbatch& data : batch) sums_S[1] += data.targets_BT.ne(ops::kIgnored).sum();
    sum_over(groups_.dp, sums_S, {Site::Evaluation});
    LossSum sum{sums_S[0].item<double>(), std::llround(sums_S[1].item<double>())};
    if (teaches) sum.divergence = sums_S[2].item<double>();
    return sum;
}

double TrainStep::replay(const Microbatch& data) {
    const c10::InferenceMode no_autograd;
    const double count = data.targets_BT.ne(ops::kIgnored).sum().item<double>();
    LossRule rule{
        .scale = 1 / std::max(count, 1.0), .tokens = options_.loss, .seed = options_.init.seed};
    if (options_.preference) {
        rule.preference = &*options_.preference;
        const std::int64_t samples = std::max<std::int64_t>(samples_in(*rule.preference, data), 1);
        rule.pairs = {1 / static_cast<double>(samples), 1 / std::max(count, 1.0)};
        rule.kl = own_kl_sum({&data, 1}).kl();
    }
    const plan::PipelineSchedule one =
        plan::gpipe(schedule_.pp, schedule_.vp, 1, schedule_.placing);
    for (Chunk& chunk : chunks_) {
        chunk.begin_step();
        // The replay needs whole gradients, so replay() allocates these gradients. They exist until
        // the next step.
        Parameters& p = chunk.parameters();
        p.stage = nullptr;
        if (!p.flat_grad.defined())
            p.grad = views_of(p.specs, lazy_zeros(numel(p.specs), p.flat_own_grad.options()));
    }
    std::vector<RankChunk> chunks = alone();
    StepTrace dropped;
    const at::Tensor values =
        execute(one, chunks, ruled({&data, 1}, {&rule, 1}), groups_.pp, dropped);
    sum_over(groups_.pp, values, {Site::NotFinite});
    if (!options_.preference) return values.flatten()[0].item<double>();
    return scaled_loss(*options_.preference,
                       sums_of(*options_.preference, data, row_of(values, 0), rule.kl), rule.pairs);
}

}  // namespace roll::train
