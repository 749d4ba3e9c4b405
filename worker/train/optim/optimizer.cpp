#include "worker/train/optim/optimizer.hpp"

#include <algorithm>
#include <map>

#include "worker/train/model/state_memory.hpp"
#include "worker/train/optim/adafactor.hpp"
#include "worker/train/optim/average.hpp"
#include "worker/train/optim/eight_bit.hpp"
#include "worker/train/optim/muon.hpp"

namespace roll::train {
namespace {

using spec::OptimizerKind;

// Returns the form of the parameter's state whose name has this ending; nullopt if there is no such
// state.
std::optional<StateForm> form_of(const ParameterSpec& parameter, const spec::OptimizerSpec& options,
                                 std::string_view ending) {
    if (parameter.frozen) return std::nullopt;
    for (StateForm& form : states_of(options, parameter))
        if (form.ending == ending) return std::move(form);
    return std::nullopt;
}

// Makes the state whose name has this ending, filled with zeros, for all parameters that have this
// state.
StateTensors make_state(const Parameters& p, const spec::OptimizerSpec& options,
                        std::string_view ending) {
    StateTensors state{ending, {}, {}, std::vector<at::Tensor>(p.specs.size())};
    std::vector<std::vector<std::int64_t>> sizes(p.specs.size());
    std::int64_t offloaded = 0, size = 0;
    at::ScalarType type = main_type(p);
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const auto form = form_of(p.specs[i], options, ending);
        if (!form) continue;
        if (form->type == StateType::Code) type = at::kByte;
        if (form->type == StateType::Bf16) type = at::kBFloat16;
        sizes[i] = form->whole.empty() ? own_rows(p, i, p.weight[i]).sizes().vec() : form->whole;
        (i < p.offloaded ? offloaded : size) += c10::multiply_integers(sizes[i]);
    }
    const at::TensorOptions kind = p.flat_weight.options().dtype(type);
    if (p.offloaded > 0) state.offloaded = p.state_memory(offloaded, kind);
    state.flat = lazy_zeros(size, kind);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        if (i == p.offloaded) begin = 0;
        if (sizes[i].empty()) continue;
        const std::int64_t count = c10::multiply_integers(sizes[i]);
        const at::Tensor& flat = i < p.offloaded ? state.offloaded : state.flat;
        state.of[i] = flat.narrow(0, begin, count).view(sizes[i]);
        begin += count;
    }
    return state;
}

}  // namespace

at::Tensor OptimizerState::of(std::string_view ending, std::size_t i) const {
    for (const StateTensors& kind : kinds)
        if (kind.ending == ending) return kind.of[i];
    return {};
}

at::Tensor OptimizerState::flat(std::string_view ending) const {
    for (const StateTensors& kind : kinds)
        if (kind.ending == ending) return kind.flat;
    return {};
}

Optimizer::Optimizer(const Parameters& parameters, const spec::OptimizerSpec& options,
                     const spec::ModelConfig& config, Communicator* dp, Communicator* tp)
    : options_(options),
      config_(config),
      parameters_(parameters) {
    for (const ParameterSpec& spec : parameters.specs)
        rules_.push_back(rule_of(options, spec, config.lora.lr_ratio));
    for (const std::string_view ending : all_endings(options))
        state_.kinds.push_back(make_state(parameters, options, ending));
    start_average();
    if (options.kind == OptimizerKind::Adafactor || options.kind == OptimizerKind::AdamW8bit)
        sums_.emplace(parameters, dp, tp);
    if (options.kind != OptimizerKind::Muon) return;
    std::vector<std::size_t> matrices;
    for (std::size_t i = 0; i < rules_.size(); ++i)
        if (rules_[i].kind == OptimizerKind::Muon && !parameters.specs[i].frozen)
            matrices.push_back(i);
    matrices_.emplace(parameters, std::move(matrices), dp, tp);
}

Update Optimizer::update_of(std::size_t i, double lr, double grad_scale) const {
    const ParameterRule& rule = rules_[i];
    const double usual = rule.decays ? options_.weight_decay : 0;
    Update update{
        parameters_, i,           options_, lr * rule.lr_scale, rule.weight_decay.value_or(usual),
        grad_scale,  state_.steps};
    std::size_t k = 0;
    for (const StateForm& form : states_of(options_, parameters_.specs[i]))
        if (form.ending != kEma) update.state[k++] = state_.of(form.ending, i);
    return update;
}

void Optimizer::step(double lr, double grad_scale) {
    state_.steps += 1;
    const bool on_gpu = !parameters_.flat_weight.is_cpu();
    if (on_gpu && grad_scale != 1) {
        at::Tensor grad =
            parameters_.flat_own_grad.defined() ? parameters_.flat_own_grad : parameters_.flat_grad;
        grad.mul_(grad_scale);
    }
    std::vector<Update> of_wholes;  // updates that need sums over whole parameters
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
        if (parameters_.specs[i].frozen) continue;
        const Update update = update_of(i, lr, on_gpu ? 1 : grad_scale);
        if (rules_[i].kind == OptimizerKind::Adafactor ||
            rules_[i].kind == OptimizerKind::AdamW8bit)
            of_wholes.push_back(update);
        if (parameters_.own[i].count == 0) continue;
        switch (rules_[i].kind) {
            case OptimizerKind::AdamW:
                if (!on_gpu) adamw(update);
                break;
            case OptimizerKind::AdamWBf16: adamw_bf16(update); break;
            case OptimizerKind::Adam: adam(update); break;
            case OptimizerKind::Sgd: sgd(update); break;
            case OptimizerKind::Lion: lion(update); break;
            case OptimizerKind::Adafactor:
            case OptimizerKind::AdamW8bit:
            case OptimizerKind::Muon: break;
        }
    }
    if (options_.kind == OptimizerKind::Adafactor) adafactor(of_wholes, config_, *sums_);
    if (options_.kind == OptimizerKind::AdamW8bit) adamw_8bit(of_wholes, *sums_);
    if (matrices_) update_matrices(lr, grad_scale);
    if (on_gpu) update_adamw_on_gpu(lr);
    update_average();
    round_weights();
    for (const StateTensors& kind : state_.kinds) let_go(kind.offloaded);
}

void Optimizer::start_average() {
    if (options_.ema.decay == 0) return;
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i)
        if (const at::Tensor average = state_.of(kEma, i); average.defined() && average.numel() > 0)
            train::start_average(parameters_, i, average);
}

void Optimizer::update_average() {
    if (options_.ema.decay == 0 || state_.steps % options_.ema.every != 0) return;
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i)
        if (const at::Tensor average = state_.of(kEma, i); average.defined() && average.numel() > 0)
            train::update_average(parameters_, i, average, options_.ema.decay);
}

void Optimizer::swap_average() {
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i)
        if (const at::Tensor average = state_.of(kEma, i); average.defined() && average.numel() > 0)
            train::swap_average(parameters_, i, average);
    round_weights();
}

void Optimizer::update_matrices(double lr, double grad_scale) {
    for (std::size_t batch = 0; batch < matrices_->batches().size(); ++batch) {
        const std::vector<std::size_t>& indices = matrices_->batches()[batch];
        std::vector<at::Tensor> rows;
        for (const std::size_t i : indices) {
            rows.push_back(muon_direction(update_of(i, lr, grad_scale)));
            let_go(state_.of(kMomentum, i));
        }
        matrices_->run(batch, rows, [&](std::size_t i, const at::Tensor& whole) {
            orthogonalize(config_, options_, parameters_.specs[i].name, whole);
        });
        for (std::size_t k = 0; k < indices.size(); ++k)
            if (parameters_.own[indices[k]].count > 0)
                muon_move(update_of(indices[k], lr, grad_scale), rows[k]);
    }
}

void Optimizer::update_adamw_on_gpu(double lr) {
    std::map<std::pair<double, double>, std::vector<Update>> groups;
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
        if (parameters_.specs[i].frozen || rules_[i].kind != OptimizerKind::AdamW) continue;
        const Update update = update_of(i, lr, 1);
        groups[{update.lr, update.weight_decay}].push_back(update);
    }
    for (const auto& [ignored, updates] : groups) adamw_on_gpu(updates);
}

// Copies the main weights, rounded, to the weights with which the model computes. Does nothing if
// both are the same tensor, or if the main weights are stored as halves.
void Optimizer::round_weights() {
    const Parameters& p = parameters_;
    if (p.flat_rest.defined() || p.flat_weight.is_same(p.flat_main)) return;
    at::Tensor flat = p.flat_weight;
    const bool is_one = !p.is_shared && !config_.lora.is_set() && !p.flat_main_offloaded.defined();
    if (is_one) return static_cast<void>(flat.copy_(p.flat_main));
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        if (p.specs[i].lora != LoraRole::Base) own_rows(p, i, p.weight[i]).copy_(p.main[i]);
}

}  // namespace roll::train
