#include "worker/train/pipeline/train_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/optim/gradient_sums.hpp"
#include "worker/train/pipeline/layer_norms.hpp"

namespace roll::train {
namespace {

// The largest relative difference of two sums that differ only by rounding.
constexpr double kRounding = 1e-9;

// Returns the row of log_probs_KS that has the log-probabilities of a micro-batch's sequences.
std::span<const double> row_of(const at::Tensor& log_probs_KS, std::size_t microbatch) {
    const auto length = static_cast<std::size_t>(log_probs_KS.size(1));
    return {log_probs_KS.const_data_ptr<double>() + microbatch * length, length};
}

void scale(LossRule& rule, double factor) {
    rule.scale *= factor;
    rule.pairs.pair *= factor;
    rule.pairs.token *= factor;
}

// Returns the entries of `all` for the layers of the chunk.
plan::Recomputed part_of(const plan::Recomputed& all, const ChunkSpec& part) {
    if (all.empty()) return {};
    return {all.begin() + part.layer_begin, all.begin() + part.layer_end};
}

}  // namespace

TrainStep::TrainStep(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
                     const Groups& groups, const TrainOptions& options)
    : schedule_(schedule),
      tied_(config.tied),
      groups_(groups),
      options_(options) {
    StageSplit split = options.split;
    split.pp = schedule.pp;
    split.vpp = schedule.vp;
    const std::vector<ChunkSpec> parts = trained_chunks(config, split, options.init.freeze);
    whole_ = whole_model(config, parts, schedule, groups.tp, options.init.freeze);
    if (options.zero > 0) {
        options_.init.owners = groups.dp.size();
        options_.init.owner = groups.dp.rank();
        options_.init.stages_gradients = options.zero > 1 && groups.dp.size() > 1;
        options_.init.splits_weights = options.zero > 2 && groups.dp.size() > 1;
    }
    for (int chunk = 0; chunk < schedule.vp; ++chunk) {
        ChunkSpec part = parts[schedule.stage(groups.pp.rank(), chunk)];
        part.recompute = part_of(options.recompute, part);
        if (groups.tp != nullptr) {
            part.tp = groups.tp->size();
            part.tp_rank = groups.tp->rank();
            part.sequence = options.sequence && part.tp > 1;
        }
        Parameters& p =
            chunks_.emplace_back(config, part, options_.init, groups.tp, &groups.dp).parameters();
        if (options.init.draw) chunks_.back().start_magnitudes();
        const auto issued = [this, chunk](int bucket) {
            announce(spec::FaultPhase::Reduce);
            trace_.push_back({.kind = TraceEvent::Kind::ReductionIssued,
                              .chunk = chunk,
                              .bucket = bucket,
                              .is_early = std::ranges::any_of(buckets_, &GradBuckets::is_open)});
        };
        buckets_.emplace_back(p, options.bucket_numel, groups.dp, groups.tp, issued);
        optimizers_.emplace_back(p, options.optimizer, config, &groups.dp, groups.tp);
    }
}

// Returns the loss rule of each micro-batch, with the factor that scales its summed loss. Sums the
// token counts over the ranks before the first backward, because gradients cannot be rescaled after
// a bucket's reduction has started.
std::vector<LossRule> TrainStep::rules(std::span<const Microbatch> batch, std::int64_t& tokens) {
    if (options_.preference) return pair_rules(batch, tokens);
    std::vector<double> counts;
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const Microbatch& data : batch) {
        counts.push_back(data.targets_BT.ne(ops::kIgnored).sum().item<double>());
        total.add_(counts.back());
    }
    sum_over(groups_.dp, total, {Site::TokenCount});
    tokens = std::llround(total.item<double>());
    const double means = static_cast<double>(std::ssize(batch)) * groups_.dp.size();
    std::vector<LossRule> rules;
    for (const double count : counts) {
        const double one =
            options_.normalize == spec::Normalize::Step ? total.item<double>() : means * count;
        rules.push_back(
            {.scale = one > 0 ? 1 / one : 0, .tokens = options_.loss, .seed = options_.init.seed});
    }
    return rules;
}

// Like rules(), but for a preference objective: counts pairs or labelled answers instead of
// targets.
std::vector<LossRule> TrainStep::pair_rules(std::span<const Microbatch> batch,
                                            std::int64_t& tokens) {
    std::vector<PairScale>
        // for each micro-batch: the number of samples, and of tokens in the pairs' chosen answers
        counts;
    enter(Phase::Forward);
    const double kl = kl_sum(batch).kl();
    enter(Phase::Other);
    const at::Tensor totals = at::zeros({3}, at::kDouble);
    for (const Microbatch& data : batch) {
        const std::vector<double> of_sequence = sequence_tokens(data);
        PairScale count{static_cast<double>(samples_in(*options_.preference, data)), 0};
        for (std::size_t i = 0; i + 1 < of_sequence.size(); i += 2) count.token += of_sequence[i];
        for (const double of_one : of_sequence) totals[2] += of_one;
        totals[0] += count.pair;
        totals[1] += count.token;
        counts.push_back(count);
    }
    sum_over(groups_.dp, totals, {Site::TokenCount});
    tokens = std::llround(totals[2].item<double>());
    const double means = static_cast<double>(std::ssize(batch)) * groups_.dp.size();
    const bool whole = options_.normalize == spec::Normalize::Step;
    const auto one_in = [](double count) { return count > 0 ? 1 / count : 0; };
    std::vector<LossRule> rules;
    for (const PairScale& count : counts)
        rules.push_back({.preference = &*options_.preference,
                         .pairs = {one_in(whole ? totals[0].item<double>() : means * count.pair),
                                   one_in(whole ? totals[1].item<double>() : means * count.token)},
                         .kl = kl});
    return rules;
}

// Returns the largest number of sequences in a micro-batch.
static std::int64_t most_sequences(std::span<const Microbatch> batch) {
    std::int64_t most = 0;
    for (const Microbatch& data : batch) most = std::max(most, std::ssize(data.segments));
    return most;
}

// Returns the micro-batches together with their loss rules and the kind of values that the last
// stage returns. `rules` is empty in an evaluation.
RuledBatch TrainStep::ruled(std::span<const Microbatch> batch,
                            std::span<const LossRule> rules) const {
    if (options_.preference) return {batch, rules, Returned::Sequences, most_sequences(batch)};
    RuledBatch ruled{.microbatches = batch, .rules = rules};
    if (!options_.loss.has_teacher()) return ruled;
    ruled.returned = Returned::Teacher;
    ruled.numbers = 2;
    ruled.temperature = options_.loss.temperature;
    return ruled;
}

PairSums TrainStep::sums_over_replicas(PairSums sums) {
    const at::Tensor all = at::tensor(at::ArrayRef<double>(sums.sums), at::kDouble);
    sum_over(groups_.dp, all, {Site::LossSum});
    std::copy_n(all.const_data_ptr<double>(), sums.sums.size(), sums.sums.begin());
    return sums;
}

// Returns this replica's part of the loss. Sets result.pairs to the sums over all replicas.
double TrainStep::loss_of_pairs(std::span<const Microbatch> batch, std::span<const LossRule> rules,
                                const at::Tensor& log_probs_KS, StepResult& result) {
    double loss = 0;
    PairSums all;
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const auto sequences = batch[k].segments.size();
        const PairSums sums = sums_of(*options_.preference, batch[k],
                                      row_of(log_probs_KS, k).first(sequences), rules[k].kl);
        loss += scaled_loss(*options_.preference, sums, rules[k].pairs);
        all += sums;
    }
    result.pairs = sums_over_replicas(all);
    return loss;
}

// Sums the gradients of a tied embedding over the first and the last stage, because each has a copy
// of the weight. Both stages use this sum, so both make the same update. The ranks of the tie group
// own the same rows.
void TrainStep::reduce_tied() {
    // Gradients of the tied embedding on this rank: none, one, or two if the rank has both stages
    std::vector<at::Tensor> copies;
    for (Chunk& chunk : chunks_) {
        const bool pre = chunk.part().pre;
        const Parameters& p = chunk.parameters();
        const std::size_t i = pre ? 0 : p.grad.size() - 1;
        const bool has_copy = tied_ && pre != chunk.part().post && (pre || chunk.part().post);
        if (has_copy && !p.specs[i].frozen) copies.push_back(p.own_grad[i]);
    }
    if (copies.size() == 1) sum_over(*groups_.tie, copies[0], {Site::TiedGrad});
    if (copies.size() == 2) copies[1].copy_(copies[0].add_(copies[1]));
}

// Sums a tensor over the ranks that hold the model's parts. Each rank's tensor must have the sums
// over counted_parameters().
void TrainStep::sum_over_model(const at::Tensor& sums, Site site) {
    if (groups_.tp != nullptr && groups_.tp->size() > 1) sum_over(*groups_.tp, sums, {site});
    if (options_.init.owners > 1) sum_over(groups_.dp, sums, {site});
    sum_over(groups_.pp, sums, {site});
}

// Returns a sum over the elements of the whole model's gradient. A tied embedding counts once, on
// the last stage.
double TrainStep::over_model(Site site, const std::function<at::Tensor(const at::Tensor&)>& sum_of,
                             bool flat) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    const bool is_split = groups_.tp != nullptr && groups_.tp->size() > 1;
    const bool is_shared = options_.init.owners > 1;
    if (flat && !is_split && !is_shared && !chunks_.front().config().lora.is_set()) {
        for (Chunk& chunk : chunks_) {
            const Parameters& p = chunk.parameters();
            sum.add_(sum_of(p.flat_grad));
            if (tied_ && chunk.part().pre && !chunk.part().post) sum.sub_(sum_of(p.grad.front()));
        }
    } else {
        for (const CountedParameter& one : counted_parameters(chunks_, tied_))
            sum.add_(sum_of(own_gradient(*one.parameters, one.index)));
    }
    sum_over_model(sum, site);
    return sum.item<double>();
}

// Returns the chunks for a pass that reduces no gradients.
std::vector<RankChunk> TrainStep::alone() {
    std::vector<RankChunk> chunks;
    for (Chunk& chunk : chunks_) chunks.push_back({chunk, [](int) {}});
    return chunks;
}

void TrainStep::enter(Phase phase) const {
    if (groups_.clock != nullptr) groups_.clock->enter(phase);
}

void TrainStep::announce(spec::FaultPhase phase) {
    if (!groups_.at_phase || std::ranges::find(announced_, phase) != announced_.end()) return;
    announced_.push_back(phase);
    groups_.at_phase(phase);
}

// Counts the gradient elements whose sum over the replicas this rank issued.
void TrainStep::count_reduced(StepResult& result) const {
    if (groups_.dp.size() == 1) return;
    for (const TraceEvent& event : trace_) {
        if (event.kind != TraceEvent::Kind::ReductionIssued) continue;
        const std::int64_t size =
            buckets_[static_cast<std::size_t>(event.chunk)].trained_numel(event.bucket);
        result.reduced += size;
        if (event.is_early) result.reduced_early += size;
    }
}

StepResult TrainStep::run(std::span<const Microbatch> batch, double lr, double loss_scale,
                          bool measures, const StepLimits& limits) {
    const c10::InferenceMode no_autograd;
    announced_.clear();
    StepResult result = compute(batch, loss_scale);
    result.lr = lr;
    if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) {
        if (result.loss > limits.loss)
            result.too_high = TooHigh::Loss;
        else if (result.grad_norm > limits.grad_norm)
            result.too_high = TooHigh::GradNorm;
        result.updated = result.too_high == TooHigh::None && result.replicas_agree;
    }
    if (result.updated) update(result, lr, loss_scale, measures);
    enter(Phase::Other);
    return result;
}

StepResult TrainStep::repeat(std::span<const Microbatch> batch, double loss_scale) {
    const c10::InferenceMode no_autograd;
    const StepResult result = compute(batch, loss_scale);
    enter(Phase::Other);
    return result;
}

std::vector<std::int64_t> TrainStep::sent_gradients() const {
    std::vector<std::int64_t> hashes;
    for (const GradBuckets& buckets : buckets_)
        hashes.insert(hashes.end(), buckets.sent().begin(), buckets.sent().end());
    return hashes;
}

// Computes the loss, the gradient and its norm.
StepResult TrainStep::compute(std::span<const Microbatch> batch, double loss_scale) {
    ROLL_CHECK(std::ssize(batch) == schedule_.microbatches);
    StepResult result{.loss_scale = loss_scale};
    trace_.clear();
    std::vector<LossRule> rule = rules(batch, result.tokens);
    for (LossRule& of_one : rule) scale(of_one, loss_scale);
    std::vector<RankChunk> chunks;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        buckets_[i].begin(schedule_.microbatches);
        chunks_[i].begin_step();
        chunks.push_back(
            {chunks_[i], [&reduce = buckets_[i]](int parameter) { reduce.ready(parameter); }});
    }
    const auto before = [this](const plan::Op& op) {
        const bool is_forward = op.kind == plan::OpKind::Forward;
        enter(is_forward ? Phase::Forward : Phase::Backward);
        announce(is_forward ? spec::FaultPhase::Forward : spec::FaultPhase::Backward);
    };
    const at::Tensor values =
        execute(schedule_, chunks, ruled(batch, rule), groups_.pp, trace_, before);
    count_reduced(result);
    enter(Phase::Optimizer);
    const bool teaches = options_.loss.has_teacher();
    at::Tensor loss = options_.preference ? values : teaches ? values.sum(0) : values.sum();
    for (GradBuckets& buckets : buckets_) buckets.finish();
    reduce_tied();
    sum_over(groups_.pp, loss, {Site::LossSum});
    if (options_.preference)
        loss = at::scalar_tensor(loss_of_pairs(batch, rule, values, result), at::kDouble);
    result.own_loss = (teaches ? loss[0] : loss).item<double>() / loss_scale;
    sum_over(groups_.dp, loss, {Site::LossSum});
    if (teaches) result.divergence = loss[1].item<double>() / loss_scale;
    if (teaches) loss = loss[0];
    result.loss = result.tokens > 0 ? loss.item<double>() / loss_scale : std::nan("");
    announce(spec::FaultPhase::Optimizer);
    result.grad_norm = std::sqrt(over_model(Site::GradNorm, square_sum, true)) / loss_scale;
    compare_norms(result);
    return result;
}

// Compares the gradient norms of the replicas, which compute them from the same sums. With ZeRO,
// the norm is a sum over the replicas and therefore the same on all of them. Accepts a difference
// of kRounding, because processors with other vector widths may add the last few numbers in another
// order.
void TrainStep::compare_norms(StepResult& result) {
    if (options_.zero > 0 || groups_.dp.size() == 1) return;
    if (!chunks_.front().parameters().flat_weight.is_cpu()) return;
    const at::Tensor own = at::scalar_tensor(result.grad_norm, at::kDouble);
    const at::Tensor norm_D = gather_over(groups_.dp, own, {Site::GradNorm});
    result.replicas_agree = at::allclose(norm_D, norm_D[0].expand_as(norm_D), kRounding,
                                         /*atol=*/0, /*equal_nan=*/true);
}

// Clips the gradient, which is multiplied by the loss scale, and updates the weights.
void TrainStep::update(StepResult& result, double lr, double loss_scale, bool measures) {
    if (options_.count_zeros)
        result.grad_zeros = std::llround(over_model(Site::GradZeros, zero_count, false));
    if (const double clip = options_.clip_grad; clip > 0)  // clips like Megatron and torch
        result.clip_factor = std::min(1.0, clip / (result.grad_norm + 1e-6));
    std::optional<LayerMeasure> measure;
    if (measures) measure.emplace(counted_parameters(chunks_, tied_), whole_);
    for (Optimizer& optimizer : optimizers_) optimizer.step(lr, result.clip_factor / loss_scale);
    if (measure) {
        const at::Tensor sums_L3 = measure->finish();
        sum_over_model(sums_L3, Site::LayerNorms);
        result.layers = measure->norms(sums_L3, loss_scale);
    }
    for (GradBuckets& buckets : buckets_) buckets.gather_weights();
}

void TrainStep::swap_average() {
    const c10::InferenceMode no_autograd;
    for (Optimizer& optimizer : optimizers_) optimizer.swap_average();
    for (GradBuckets& buckets : buckets_) buckets.gather_weights();
}

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

std::string TrainStep::doing() const {
    const std::vector<plan::Op>& ops = schedule_.ranks[groups_.pp.rank()];
    const auto done = static_cast<std::size_t>(
        std::ranges::count(trace_, TraceEvent::Kind::OpDone, &TraceEvent::kind));
    if (done >= ops.size()) return "the optimizer's update";
    constexpr const char* kNames[] = {"forward", "backward",
                                      "the weight-gradient pass of backward"};
    return std::string(kNames[static_cast<int>(ops[done].kind)]) + " of micro-batch " +
           std::to_string(ops[done].microbatch);
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
        // The replay needs whole gradients, so replay() allocates these gradients, which exist
        // until the next step.
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

bool is_first(const Groups& groups) {
    return groups.pp.rank() == 0 && (groups.tp == nullptr || groups.tp->rank() == 0);
}

TextModel text_model(TrainStep& step) {
    TextModel model{.parts = {},
                    .pp = &step.groups().pp,
                    .dp = step.shares_weights() ? &step.groups().dp : nullptr};
    for (int stage = 0; stage < step.schedule().stages(); ++stage) {
        const auto [rank, chunk] = step.schedule().home(stage);
        Chunk* const own = rank == model.pp->rank() ? &step.chunks()[chunk] : nullptr;
        model.parts.push_back({own, rank});
    }
    return model;
}

}  // namespace roll::train
