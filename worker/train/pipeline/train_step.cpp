#include "worker/train/pipeline/train_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/optim/gradient_sums.hpp"
#include "worker/train/pipeline/layer_norms.hpp"
#include "worker/train/pipeline/step_sums.hpp"

namespace roll::train {
namespace {

// The largest relative difference of two sums that differ only by rounding.
constexpr double kRounding = 1e-9;

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
            chunks_.emplace_back(config, part, options_.init, groups.tp, &groups.dp, groups.cp)
                .parameters();
        if (options.init.draw) chunks_.back().start_magnitudes();
        const auto issued = [this, chunk](int bucket) {
            announce(spec::FaultPhase::Reduce);
            trace_.push_back({.kind = TraceEvent::Kind::ReductionIssued,
                              .chunk = chunk,
                              .bucket = bucket,
                              .is_early = std::ranges::any_of(buckets_, &GradBuckets::is_open)});
        };
        buckets_.emplace_back(p, options.bucket_numel, groups.dp, groups.tp, issued);
        if (p.is_shared)
            chunks_.back().before_use([&all = buckets_.back()](int i) { all.await_weights(i); });
        optimizers_.emplace_back(p, options.optimizer, config, &groups.dp, groups.tp);
    }
}

// Returns the loss rule of each micro-batch, with the factor that scales its summed loss. Sums the
// token counts over the ranks before the first backward, because gradients cannot be rescaled after
// a bucket's reduction has started.
std::vector<LossRule> TrainStep::rules(std::span<const Microbatch> batch, std::int64_t& tokens) {
    if (options_.preference) return pair_rules(batch, tokens);
    const bool whole = options_.normalize == spec::Normalize::Step;
    const at::Tensor counts = at::zeros({std::ssize(batch)}, at::kDouble);
    for (std::size_t k = 0; k < batch.size(); ++k)
        counts[static_cast<std::int64_t>(k)] = batch[k].targets_BT.ne(ops::kIgnored).sum();
    const at::Tensor total = counts.sum();
    sum_over(groups_.dp, total, {Site::TokenCount});
    const int sharing = groups_.cp == nullptr ? 1 : groups_.cp->size();
    if (!whole && sharing > 1) sum_over(*groups_.cp, counts, {Site::TokenCount});
    tokens = std::llround(total.item<double>());
    const double means = static_cast<double>(std::ssize(batch)) * groups_.dp.size() / sharing;
    std::vector<LossRule> rules;
    for (std::int64_t k = 0; k < counts.numel(); ++k) {
        const double one = whole ? total.item<double>() : means * counts[k].item<double>();
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

// Returns this replica's part of the loss and of the sums over pairs. log_probs_KS: values of the
// last stage.
StepParts TrainStep::loss_of_pairs(std::span<const Microbatch> batch,
                                   std::span<const LossRule> rules,
                                   const at::Tensor& log_probs_KS) {
    StepParts own;
    for (std::size_t k = 0; k < batch.size(); ++k) {
        const auto sequences = batch[k].segments.size();
        const PairSums sums = sums_of(*options_.preference, batch[k],
                                      row_of(log_probs_KS, k).first(sequences), rules[k].kl);
        own.loss += scaled_loss(*options_.preference, sums, rules[k].pairs);
        own.pairs += sums;
    }
    return own;
}

// Returns this rank's part of the loss from the values that execute() returned.
StepParts TrainStep::own_loss(std::span<const Microbatch> batch, std::span<const LossRule> rules,
                              const at::Tensor& values) {
    if (!chunks_.back().part().post) return {};
    if (options_.preference) return loss_of_pairs(batch, rules, values);
    if (!options_.loss.has_teacher()) return {.loss = values.sum().item<double>()};
    const at::Tensor both = values.sum(0);
    return {.loss = both[0].item<double>(), .divergence = both[1].item<double>()};
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

// Returns a sum over this rank's elements of the gradient. A tied embedding counts once, on the
// last stage.
double TrainStep::over_gradient(const std::function<at::Tensor(const at::Tensor&)>& sum_of,
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

// Counts the gradient elements whose sums over the replicas this rank has started.
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
                          bool measures, const StepLimits& limits,
                          const std::function<std::vector<double>()>& extra) {
    const c10::InferenceMode no_autograd;
    announced_.clear();
    StepResult result = compute(batch, loss_scale, extra);
    result.lr = lr;
    if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) {
        if (result.loss > limits.loss)
            result.too_high = TooHigh::Loss;
        else if (result.grad_norm > limits.grad_norm)
            result.too_high = TooHigh::GradNorm;
        result.updated = result.too_high == TooHigh::None && result.replicas_agree;
    }
    if (result.updated)
        update(result, lr, loss_scale, measures);
    else
        result.grad_zeros.reset();
    enter(Phase::Other);
    return result;
}

StepResult TrainStep::repeat(std::span<const Microbatch> batch, double loss_scale) {
    const c10::InferenceMode no_autograd;
    const StepResult result = compute(batch, loss_scale, {});
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
StepResult TrainStep::compute(std::span<const Microbatch> batch, double loss_scale,
                              const std::function<std::vector<double>()>& extra) {
    ROLL_CHECK(std::ssize(batch) == schedule_.microbatches);
    StepResult result{.loss_scale = loss_scale};
    trace_.clear();
    std::vector<LossRule> rule = rules(batch, result.tokens);
    loads_ = {};
    for (LossRule& of_one : rule) {
        scale(of_one, loss_scale);
        of_one.loads = &loads_;
    }
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
    for (GradBuckets& buckets : buckets_) buckets.finish();
    reduce_tied();
    StepParts own = own_loss(batch, rule, values);
    own.balance = loads_.balance;
    own.fullest = loads_.fullest;
    announce(spec::FaultPhase::Optimizer);
    own.squares = over_gradient(square_sum, true);
    if (options_.count_zeros) own.zeros = over_gradient(zero_count, false);
    conclude(result, own, extra ? extra() : std::vector<double>());
    return result;
}

// Adds up the parts of all ranks, and compares the norms of the replicas.
void TrainStep::conclude(StepResult& result, const StepParts& own, std::span<const double> extra) {
    const StepSums sums = step_sums(groups_, own, options_.init.owners > 1, extra);
    result.extra_RN = sums.extra_RN;
    const double scale = result.loss_scale;
    result.own_loss = sums.own_loss / scale;
    result.loss = result.tokens > 0 ? sums.whole.loss / scale : std::nan("");
    result.grad_norm = std::sqrt(sums.whole.squares) / scale;
    if (options_.loss.has_teacher()) result.divergence = sums.whole.divergence / scale;
    if (options_.preference) result.pairs = sums.whole.pairs;
    const spec::ModelConfig& config = chunks_.front().config();
    const auto layers = static_cast<double>(config.layers);
    const double blocks = layers * schedule_.microbatches * groups_.dp.size();
    if (config.experts > 0)
        result.experts = {sums.whole.balance / scale / layers, sums.whole.fullest / blocks};
    if (options_.count_zeros) result.grad_zeros = std::llround(sums.whole.zeros);
    // The replicas compute their norms from the same gradients. Processors with other vector widths
    // may add the last few numbers in another order, so the norms may differ by rounding.
    if (!chunks_.front().parameters().flat_weight.is_cpu()) return;
    std::vector<double> norms;
    for (const double squares : sums.squares_D) norms.push_back(std::sqrt(squares) / scale);
    const at::Tensor norm_D = at::tensor(norms, at::kDouble);
    result.replicas_agree = at::allclose(norm_D, norm_D[0].expand_as(norm_D), kRounding,
                                         /*atol=*/0, /*equal_nan=*/true);
}

// Clips the gradient, and updates the weights. The gradient is still multiplied by the loss scale.
void TrainStep::update(StepResult& result, double lr, double loss_scale, bool measures) {
    if (const double clip = options_.clip_grad; clip > 0)  // clips like Megatron and torch
        result.clip_factor = std::min(1.0, clip / (result.grad_norm + 1e-6));
    std::optional<LayerMeasure> measure;
    if (measures) measure.emplace(counted_parameters(chunks_, tied_), whole_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        optimizers_[i].step(lr, result.clip_factor / loss_scale);
        buckets_[i].start_gathers();
    }
    // With ZeRO-3, only vectors are gathered here, so this is fast. Forward gathers the other
    // weights.
    if (shares_weights()) await_weights();
    if (measure) {
        const at::Tensor sums_L3 = measure->finish();
        sum_over_model(sums_L3, Site::LayerNorms);
        result.layers = measure->norms(sums_L3, loss_scale);
    }
}

void TrainStep::await_weights() {
    const c10::InferenceMode no_autograd;
    for (GradBuckets& buckets : buckets_) buckets.await_weights(std::numeric_limits<int>::max());
}

void TrainStep::swap_average() {
    const c10::InferenceMode no_autograd;
    await_weights();
    for (Optimizer& optimizer : optimizers_) optimizer.swap_average();
    for (GradBuckets& buckets : buckets_) buckets.start_gathers();
    await_weights();
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
