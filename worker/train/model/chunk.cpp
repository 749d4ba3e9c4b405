#include "worker/train/model/chunk.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/dropout.hpp"
#include "worker/train/model/saved_values.hpp"
#include "worker/train/model/score.hpp"

namespace roll::train {
namespace {

std::int64_t layers(const ChunkSpec& part) { return part.layer_end - part.layer_begin; }

int head_unit(const spec::ModelConfig& config, const ChunkSpec& part) {
    return config.tied && part.pre ? kEmbeddingUnit : layer_unit(layers(part));
}

// Returns the unit whose weights forward uses next after the weights of `unit`; -1: none.
int unit_after(const spec::ModelConfig& config, const ChunkSpec& part, int unit) {
    if (unit < layer_unit(layers(part)) - 1) return unit + 1;
    return part.post ? head_unit(config, part) : -1;
}

// Returns the first layer that must be recomputed before backward of layer `index`. If forward
// dropped values of layer `index`, this is the first layer of the layer's recomputation unit.
// Otherwise, nothing is recomputed, and the result is `index`.
std::int64_t first_used(const ChunkSpec& part, const std::vector<LayerSaved>& saved,
                        std::int64_t index) {
    if (!saved[static_cast<std::size_t>(index)].is_dropped) return index;
    while (!part.recompute_of(index).keeps_input) --index;
    return index;
}

// Returns false if only the output layer is trained: then its input needs no gradient.
bool trains_below_head(const spec::ModelConfig& config, const ChunkSpec& part) {
    return part.lowest <= config.layers;
}

// Passes empty contributions for the frozen parameters [begin, end), for which backward has nothing
// to compute. GradBuckets expects contributions to all parameters.
void pass_over(int begin, int end, const Contribute& contribute) {
    for (int i = begin; i < end; ++i) contribute(i, [](const at::Tensor&, ops::Sum) {});
}

// Returns the teacher's values on a device; nullopt if there are none.
std::optional<ops::TeacherRows> teacher_rows(const TeacherValues& teacher,
                                             const spec::TokenLossSpec& loss, at::Device device) {
    if (!teacher.ids_MK.defined()) return std::nullopt;
    return ops::TeacherRows{
        teacher.ids_MK.to(device), teacher.log_probs_MK.to(device), loss.teacher_weight,
        loss.temperature,
        at::zeros({teacher.ids_MK.size(0)}, at::TensorOptions(at::kDouble).device(device))};
}

}  // namespace

Chunk::Chunk(const spec::ModelConfig& config, const ChunkSpec& chunk, const InitOptions& options,
             Communicator* tp, Communicator* dp, Communicator* cp)
    : config_(config),
      part_(chunk),
      tp_(tp),
      cp_(cp),
      vocabulary_(config, tp),
      places_(places_of_layers(config, chunk.layer_begin, chunk.layer_end, first_layer())),
      parameters_(make_parameters(parameter_specs(config, chunk), options)),
      grads_(parameters_),
      room_(parameters_, places_.first),
      seed_(options.seed) {
    const std::int64_t begin = part_.backward_begin();
    ROLL_CHECK(begin == part_.layer_end ||
               part_.recompute_of(begin - part_.layer_begin).keeps_input);
    if (!options.splits_weights) return;
    std::vector<std::vector<int>> units(static_cast<std::size_t>(layers(part_)) + 2);
    for (int i = 0; i < std::ssize(parameters_.specs); ++i) {
        int unit = head_unit(config_, part_);
        const auto after = std::ranges::upper_bound(places_.first, i);
        if (i < norm()) unit = layer_unit(after - places_.first.begin() - 1);
        if (i < first_layer()) unit = kEmbeddingUnit;
        if (parameters_.is_split[i]) units[unit].push_back(i);
    }
    gathered_ = std::make_unique<GatheredWeights>(parameters_, std::move(units), *dp);
}

// Weights are used only in the scope of a HeldUnit. The weights of the last norm are an exception:
// they belong to no unit, because each rank stores them whole.
HeldUnit Chunk::hold(int unit, int next, bool again) const {
    const auto i = static_cast<std::size_t>(unit);
    if (await_) await_(i < places_.first.size() ? places_.first[i] - 1 : head());
    return {gathered_.get(), unit, next, again};
}

void Chunk::begin_step() {
    grads_.begin();
    room_.clear();
    lengths_.clear();
    if (gathered_) gathered_->check_all_free();
}

// Returns the allocator for a layer's activations. The activations of the first micro-batch may be
// in the memory of the gradients. This is safe: gradients are added in the order of the
// micro-batches, so no gradient is written before the backward of the first micro-batch.
ops::Place Chunk::place_of(int microbatch, std::int64_t layer) {
    return microbatch == 0 ? room_.of_layer(layer) : ops::Place();
}

Layer Chunk::layer(std::int64_t index, const Sequences& sequences, ops::Place place) {
    return {config_,
            parameters_,
            places_.places[static_cast<std::size_t>(index)],
            sequences.rope,
            part_.layer_begin + index,
            places_.first[static_cast<std::size_t>(index)],
            sequences.pieces,
            std::move(place),
            tp_,
            sequences.rows,
            &sequences.context,
            part_.recompute_of(index),
            false,
            {},
            &lengths_,
            sequences.balance};
}

// Returns the layer with dropout on the inputs of the LoRA factors, as in training.
Layer Chunk::trained_layer(std::int64_t index, const Sequences& sequences, ops::Place place) {
    Layer trained = layer(index, sequences, std::move(place));
    trained.dropout = {.probability = config_.lora.dropout,
                       .seed = seed_,
                       .first_row = sequences.first_row,
                       .number_M = sequences.number_M};
    return trained;
}

void Chunk::start_magnitudes() {
    if (!config_.lora.dora) return;
    lengths_.clear();
    for (std::int64_t i = 0; i < layers(part_); ++i) {
        const HeldUnit held = hold(layer_unit(i), -1);
        layer(i, {}).start_magnitudes();
    }
}

void Chunk::restore_before(Saved& saved, std::int64_t index) {
    for (std::int64_t i = first_used(part_, saved.layers, index); i < index; ++i) {
        const HeldUnit held = hold(layer_unit(i), layer_unit(i + 1), true);
        LayerSaved& of_layer = saved.layers[static_cast<std::size_t>(i)];
        Layer same = trained_layer(i, saved.sequences);
        same.again = true;
        saved.layers[static_cast<std::size_t>(i + 1)].norm1.x_MC =
            same.forward(of_layer.norm1.x_MC, saved.sequences.positions, of_layer);
        of_layer.is_dropped = false;
    }
}

void Chunk::restore(Saved& saved, std::int64_t index) {
    LayerSaved& of_layer = saved.layers[static_cast<std::size_t>(index)];
    if (!of_layer.is_dropped) return;
    Layer same = trained_layer(index, saved.sequences);
    same.again = true;
    same.restore(saved.sequences.positions, of_layer);
}

// Brings the values for backward of layer `index` back from the store, and begins to read the
// values that backward needs next. If `index` is the number of layers, the values are those of the
// norm and the loss.
void Chunk::bring_back(Saved& saved, std::int64_t index) {
    if (room_.store() == nullptr) return;
    std::int64_t first = index;
    if (index == layers(part_))
        saved.parked.back().restore(values_of(saved.norm, saved.loss));
    else
        first = first_used(part_, saved.layers, index);
    for (std::int64_t i = first; i < std::min(index + 1, layers(part_)); ++i)
        saved.parked[static_cast<std::size_t>(i)].restore(
            values_of(saved.layers[static_cast<std::size_t>(i)]));
    if (first <= part_.backward_begin() - part_.layer_begin) return;
    for (std::int64_t i = first_used(part_, saved.layers, first - 1); i < first; ++i)
        saved.parked[static_cast<std::size_t>(i)].fetch();
}

int Chunk::norm() const { return places_.first.back(); }

int Chunk::head() const { return config_.tied && part_.pre ? 0 : norm() + 1; }

at::Tensor Chunk::here(const at::Tensor& tensor) const {
    return tensor.to(parameters_.flat_weight.device());
}

RowSplit Chunk::rows_of(const Microbatch& data) const {
    return {part_.sequence ? tp_ : nullptr, data.tokens_BT.numel()};
}

// Returns all rows of the output layer's input. With sequence parallelism, gathers the rows of all
// ranks.
at::Tensor Chunk::head_rows(const at::Tensor& h_MC, const RowSplit& rows) const {
    return rows.is_split() ? gather_rows(rows, h_MC, {Site::HeadRows}) : h_MC;
}

Chunk::Sequences Chunk::sequences_of(const Microbatch& data) {
    return sequences_.rows_of(data, config_, rows_of(data), cp_,
                              parameters_.flat_weight.options().dtype(main_type(parameters_)));
}

at::Tensor Chunk::embed(const at::Tensor& tokens_M, const RowSplit& rows) const {
    const HeldUnit held = hold(kEmbeddingUnit, unit_after(config_, part_, kEmbeddingUnit));
    at::Tensor x_MC = vocabulary_.embedding(here(tokens_M), parameters_.weight[0], rows);
    return config_.embedding_scale == 1 ? x_MC : x_MC.mul_(config_.embedding_scale);
}

at::Tensor Chunk::normed(const at::Tensor& x_MC, ops::RmsNormSaved& saved) const {
    if (await_) await_(norm());
    return ops::rms_norm(x_MC, norm_weight(config_, parameters_.weight[norm()]), config_.norm_eps,
                         saved);
}

ops::Head Chunk::output() const {
    return vocabulary_.head(parameters_.weight[head()], config_.logit_soft_cap);
}

std::vector<double> Chunk::sequence_log_probs(const at::Tensor& h_MC,
                                              const Microbatch& data) const {
    if (config_.scores) return score_values(h_MC, parameters_.weight[head()], data);
    const at::Tensor loss_M =
        ops::linear_cross_entropy_rows(h_MC, output(), here(data.targets_BT).flatten());
    return sequence_sums(data, loss_M.cpu().neg_());
}

// Returns the result of forward() of a reward model.
at::Tensor Chunk::score_of(int microbatch, const at::Tensor& h_MC, const Microbatch& data,
                           const LossRule& rule, const GradReady& ready) {
    const at::Tensor& w_1C = parameters_.weight[head()];
    const std::vector<double> scores = score_values(h_MC, w_1C, data);
    ScoreGrads grads = score_backward(h_MC, w_1C, data, sequence_coefficients(data, rule, scores));
    saved_.at(microbatch).loss.dx_MC = std::move(grads.dh_MC);
    grads_.add(head(), microbatch, 0, add_norm_grad(grads.dw_1C), ready);
    return at::tensor(scores, at::kDouble);
}

// Returns the result of forward(), and adds this micro-batch's contribution to the gradient of the
// head's weight. Contributions are added in the order of the micro-batches. If this contribution is
// the next one, computes it together with the loss, while the logits exist. Otherwise, drops the
// logits, and computes them again when it is time to add the contribution.
at::Tensor Chunk::loss_of(int microbatch, const at::Tensor& x_MC, const Microbatch& data,
                          const LossRule& rule, const GradReady& ready) {
    Saved& saved = saved_.at(microbatch);
    const at::Tensor targets_M = here(data.targets_BT).flatten();
    const at::Tensor h_MC = head_rows(normed(x_MC, saved.norm), saved.sequences.rows);
    if (!trains_below_head(config_, part_)) saved.norm = {};
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    if (config_.scores) return score_of(microbatch, h_MC, data, rule, ready);
    // With a preference objective, the factor of a row's loss depends on the log-probabilities of
    // all rows. Therefore, the logits are computed twice: here for the log-probabilities, and below
    // for the loss.
    at::Tensor log_probs_S, scale_M;
    if (rule.preference != nullptr) {
        const std::vector<double> log_probs = sequence_log_probs(h_MC, data);
        log_probs_S = at::tensor(log_probs, at::kDouble);
        scale_M = row_scales(data, rule, log_probs);
    }
    const std::optional<ops::TeacherRows> teacher =
        teacher_rows(data.teacher, rule.tokens, h_MC.device());
    const auto loss_and_grad = [this, h_MC, targets_M, scale_M, rule, teacher](
                                   const ops::HeadGrad& grad, ops::CrossEntropySaved& to,
                                   const ops::Place& place) {
        ops::Head head = output();
        if (!scale_M.defined()) {
            head.terms = {rule.tokens.label_smoothing, rule.tokens.z_loss};
            head.teacher = teacher;
            return ops::linear_cross_entropy(h_MC, head, targets_M, rule.scale, grad, to, place);
        }
        ops::linear_cross_entropy_grad(h_MC, head, targets_M, scale_M, grad, to, place);
        return at::Tensor();
    };
    AddGrad add = [](const at::Tensor&, ops::Sum) {};
    const bool in_turn = grads_.is_next(head(), microbatch, 0);
    if (!in_turn) {
        add = [this, loss_and_grad](const at::Tensor& dw_VC, ops::Sum sum) {
            const HeldUnit head_held = hold(head_unit(config_, part_), -1, true);
            ops::CrossEntropySaved dropped;
            loss_and_grad({dw_VC, sum, trains_below_head(config_, part_)}, dropped, {});
        };
    }
    ops::HeadGrad grad{.input = trains_below_head(config_, part_)};
    if (in_turn && !parameters_.specs[head()].frozen) {
        grad.sum = grads_.open(head());
        grad.dw_VC = parameters_.grad[head()];
    }
    const at::Tensor loss =
        loss_and_grad(grad, saved.loss, place_of(microbatch, part_.layer_end - part_.layer_begin));
    grads_.add(head(), microbatch, 0, std::move(add), ready);
    if (teacher) return at::stack({loss, teacher->divergence_M.sum() * rule.scale}).cpu();
    return log_probs_S.defined() ? log_probs_S : loss;
}

at::Tensor Chunk::forward(int microbatch, const Microbatch& data, const at::Tensor& hidden_MC,
                          const LossRule& rule, const GradReady& ready) {
    auto [entry, fresh] = saved_.try_emplace(microbatch);
    ROLL_CHECK(fresh);
    Saved& saved = entry->second;
    saved.tokens_M = here(data.tokens_BT).flatten();
    saved.layers.resize(static_cast<std::size_t>(layers(part_)));
    saved.parked.resize(saved.layers.size() + 1);
    saved.sequences = sequences_of(data);
    saved.sequences.balance = balance_of(config_, data, rule);
    at::Tensor x_MC = embed(data, hidden_MC, saved.sequences.rows);
    if (part_.pre) add_noise(data, rule, saved.sequences.rows, main_type(parameters_), x_MC);
    for (std::int64_t i = 0; i < std::ssize(saved.layers); ++i) {
        const HeldUnit held = hold(layer_unit(i), unit_after(config_, part_, layer_unit(i)));
        LayerSaved dropped;
        const bool is_saved = part_.layer_begin + i >= part_.backward_begin();
        x_MC = trained_layer(i, saved.sequences, place_of(microbatch, i))
                   .forward(x_MC, saved.sequences.positions,
                            is_saved ? saved.layers[static_cast<std::size_t>(i)] : dropped);
        if (room_.store() != nullptr && is_saved)
            saved.parked[static_cast<std::size_t>(i)].park(
                *room_.store(), values_of(saved.layers[static_cast<std::size_t>(i)]));
    }
    // For the first micro-batch, return a copy. The next stage keeps the returned tensor, but x_MC
    // may be in the memory of a gradient, which backward will overwrite.
    if (!part_.post) return microbatch == 0 ? x_MC.clone() : x_MC;
    at::Tensor loss = loss_of(microbatch, x_MC, data, rule, ready);
    if (room_.store() != nullptr)
        saved.parked.back().park(*room_.store(), values_of(saved.norm, saved.loss));
    return loss;
}

// Returns the input of the first layer. In the first stage, that is the embedding of the tokens.
at::Tensor Chunk::embed(const Microbatch& data, const at::Tensor& hidden_MC, const RowSplit& rows) {
    return part_.pre ? embed(data.tokens_BT.flatten(), rows) : hidden_MC;
}

at::Tensor Chunk::hidden_of(const Microbatch& data, const at::Tensor& hidden_MC) {
    // the lengths may be outdated, because an update may have changed the weights
    lengths_.clear();
    const Sequences sequences = sequences_of(data);
    at::Tensor x_MC = embed(data, hidden_MC, sequences.rows);
    for (std::int64_t i = 0; i < layers(part_); ++i) {
        const HeldUnit held = hold(layer_unit(i), unit_after(config_, part_, layer_unit(i)));
        LayerSaved dropped;
        x_MC = layer(i, sequences).forward(x_MC, sequences.positions, dropped);
    }
    if (!part_.post) return x_MC;
    ops::RmsNormSaved dropped;
    return head_rows(normed(x_MC, dropped), sequences.rows);
}

at::Tensor Chunk::evaluate(const Microbatch& data, const at::Tensor& hidden_MC,
                           double temperature) {
    const at::Tensor h_MC = hidden_of(data, hidden_MC);
    if (!part_.post) return h_MC;
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    ops::Head head = output();
    head.teacher = teacher_rows(data.teacher, {.temperature = temperature}, h_MC.device());
    const at::Tensor loss =
        ops::linear_cross_entropy_value(h_MC, head, here(data.targets_BT).flatten());
    return head.teacher ? at::stack({loss, head.teacher->divergence_M.sum()}).cpu() : loss;
}

at::Tensor Chunk::top_tokens(const Microbatch& data, const at::Tensor& hidden_MC,
                             const TopRule& rule) {
    const at::Tensor h_MC = hidden_of(data, hidden_MC);
    if (!part_.post) return h_MC;
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    const at::Tensor rows_N = data.targets_BT.flatten().ne(ops::kIgnored).nonzero().flatten();
    const ops::TopTokens best = ops::linear_top_tokens(h_MC.index_select(0, here(rows_N)), output(),
                                                       rule.count, rule.temperature);
    return at::stack({best.ids_MK.to(at::kDouble), best.log_probs_MK}).cpu();
}

at::Tensor Chunk::log_probs(const Microbatch& data, const at::Tensor& hidden_MC) {
    const at::Tensor h_MC = hidden_of(data, hidden_MC);
    if (!part_.post) return h_MC;
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    return at::tensor(sequence_log_probs(h_MC, data), at::kDouble);
}

at::Tensor Chunk::run_layer(std::int64_t index, const at::Tensor& x_MC, const ops::RopeTable& rope,
                            RowLengths& lengths, const Attend& attend) const {
    const HeldUnit held = hold(layer_unit(index), unit_after(config_, part_, layer_unit(index)));
    const auto i = static_cast<std::size_t>(index);
    Layer layer{config_,         parameters_, places_.places[i], rope, part_.layer_begin + index,
                places_.first[i]};
    layer.tp = tp_;
    layer.lengths = &lengths;
    LayerSaved dropped;
    const ops::Heads heads = layer.project(x_MC, x_MC.size(0), dropped);
    return layer.finish(x_MC, attend(heads, layer.rule()), dropped);
}

at::Tensor Chunk::next_logits(const at::Tensor& x_MC) const {
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    ops::RmsNormSaved dropped;
    return vocabulary_.gather_logits(ops::logits(normed(x_MC, dropped), output()));
}

at::Tensor Chunk::logits(const at::Tensor& tokens_BT) {
    const at::Tensor h_MC = hidden_of({tokens_BT, {}, {}}, {});
    const HeldUnit held = hold(head_unit(config_, part_), -1);
    return ops::logits(h_MC, output()).unflatten(0, {tokens_BT.size(0), tokens_BT.size(1)});
}

at::Tensor Chunk::loss_backward(Saved& saved, const Contribute& contribute) {
    if (!trains_below_head(config_, part_)) {
        pass_over(norm(), norm() + 1, contribute);
        return {};
    }
    const at::Tensor dh_MC = std::exchange(saved.loss.dx_MC, {});
    const RowSplit& rows = saved.sequences.rows;
    // Each rank has the whole gradient of the score layer's input, but only a part of the gradient
    // of the output layer's input. The parts must be summed over the ranks.
    const at::Tensor dy_MC = !config_.scores   ? vocabulary_.sum_input_grad(dh_MC, rows)
                             : rows.is_split() ? take_rows(rows, dh_MC)
                                               : dh_MC;
    const at::Tensor w_C = norm_weight(config_, parameters_.weight[norm()]);
    const at::Tensor part_C = grad_like(parameters_, norm());
    at::Tensor dx_MC = ops::rms_norm_backward(dy_MC, w_C, std::exchange(saved.norm, {}),
                                              /*dresidual_MC=*/{}, part_C);
    contribute(norm(), add_norm_grad(part_C));
    return dx_MC;
}

at::Tensor Chunk::backward_input(int microbatch, const at::Tensor& dhidden_MC, WeightHalves when,
                                 const GradReady& ready) {
    Saved& saved = saved_.at(microbatch);
    const Contribute now = [&](int parameter, AddGrad add) {
        grads_.add(parameter, microbatch, 0, std::move(add), ready);
    };
    const Contribute later = [&](int parameter, AddGrad add) {
        saved.owed.push_back({parameter, std::move(add)});
    };
    bring_back(saved, layers(part_));
    at::Tensor dx_MC = part_.post ? loss_backward(saved, now) : dhidden_MC;
    const std::int64_t begin = part_.backward_begin() - part_.layer_begin;
    for (auto i = std::ssize(saved.layers) - 1; i >= begin; --i) {
        LayerSaved& of_layer = saved.layers.back();
        bring_back(saved, i);
        restore_before(saved, i);
        const int next = i > begin ? layer_unit(first_used(part_, saved.layers, i - 1)) : -1;
        const HeldUnit held = hold(layer_unit(i), next, true);
        restore(saved, i);
        // Copy o_MA. The weight gradients that need o_MA are computed later, when gradients may
        // already be in the memory of o_MA. If o_MA was recomputed, it has memory of its own and
        // needs no copy.
        if (when == WeightHalves::Later && microbatch == 0 && !part_.recompute_of(i).attention())
            of_layer.o_MA = of_layer.o_MA.clone();
        dx_MC = trained_layer(i, saved.sequences)
                    .backward_input(dx_MC, of_layer, now, when == WeightHalves::Now ? now : later);
        saved.layers.pop_back();
    }
    pass_over(places_.first.front(), places_.first[static_cast<std::size_t>(begin)], now);
    if (part_.sends_gradient()) return dx_MC;
    if (!part_.pre || part_.lowest >= 0) return {};
    if (const RowSplit& rows = saved.sequences.rows; rows.is_split())
        dx_MC = gather_rows(rows, dx_MC, {Site::EmbeddingGrad});
    saved.dembedded_MC = config_.embedding_scale == 1 ? dx_MC : dx_MC * config_.embedding_scale;
    return {};
}

void Chunk::backward_weight(int microbatch, const GradReady& ready) {
    Saved saved = std::move(saved_.extract(microbatch).mapped());
    for (Owed& half : saved.owed)
        grads_.add(half.parameter, microbatch, 0, std::exchange(half.add, {}), ready);
    if (!part_.pre) return;
    // The embedding makes the last contribution of a micro-batch to the gradient of parameter 0. If
    // the embedding is tied, the output layer has made contribution 0.
    const int use = parameters_.specs[0].uses - 1;
    const auto add = [this, dy_MC = saved.dembedded_MC, tokens_M = saved.tokens_M](
                         const at::Tensor& dw_VC, ops::Sum sum) {
        vocabulary_.embedding_backward_weight(dy_MC, tokens_M, dw_VC, sum);
    };
    grads_.add(0, microbatch, use, add, ready);
}

}  // namespace roll::train
