#include "worker/train/optim/optimizer.hpp"

#include <algorithm>
#include <map>

#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/optim/muon.hpp"

namespace roll::train {
namespace {

using spec::OptimizerKind;

bool has_state(const Parameters& p, std::size_t i, const ParameterRule& rule,
               const spec::OptimizerSpec& options, std::string_view ending) {
    const auto endings = state_endings(rule.kind, options);
    return !p.specs[i].frozen && std::ranges::find(endings, ending) != endings.end();
}

// Makes a zeroed state, for the parameters whose rules have a state with this name ending.
StateTensors make_state(const Parameters& p, const std::vector<ParameterRule>& rules,
                        const spec::OptimizerSpec& options, std::string_view ending) {
    StateTensors state{ending, {}, std::vector<at::Tensor>(p.specs.size())};
    std::int64_t size = 0;
    const auto rows_of = [&](std::size_t i) { return own_rows(p, i, p.weight[i]); };
    for (std::size_t i = 0; i < p.specs.size(); ++i)
        if (has_state(p, i, rules[i], options, ending)) size += rows_of(i).numel();
    state.flat = lazy_zeros(size, p.flat_weight.options().dtype(main_type(p)));
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        if (!has_state(p, i, rules[i], options, ending)) continue;
        const at::Tensor like = rows_of(i);
        state.of[i] = state.flat.narrow(0, begin, like.numel()).view(like.sizes());
        begin += like.numel();
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
        state_.kinds.push_back(make_state(parameters, rules_, options, ending));
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
    const auto endings = state_endings(rule.kind, options_);
    for (std::size_t k = 0; k < endings.size(); ++k) update.state[k] = state_.of(endings[k], i);
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
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
        if (parameters_.specs[i].frozen || parameters_.own[i].count == 0) continue;
        const Update update = update_of(i, lr, grad_scale);
        switch (rules_[i].kind) {
            case OptimizerKind::AdamW:
                if (!on_gpu) adamw(update);
                break;
            case OptimizerKind::Adam: adam(update); break;
            case OptimizerKind::Sgd: sgd(update); break;
            case OptimizerKind::Lion: lion(update); break;
            case OptimizerKind::Muon: break;
        }
    }
    if (matrices_) update_matrices(lr, grad_scale);
    if (!on_gpu) return;
    update_adamw_on_gpu(lr);
    round_on_gpu();
}

void Optimizer::update_matrices(double lr, double grad_scale) {
    for (std::size_t batch = 0; batch < matrices_->batches().size(); ++batch) {
        const std::vector<std::size_t>& indices = matrices_->batches()[batch];
        std::vector<at::Tensor> rows;
        for (const std::size_t i : indices)
            rows.push_back(muon_direction(update_of(i, lr, grad_scale)));
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

// Writes the main weights, rounded, to the bfloat16 weights with which the model computes.
void Optimizer::round_on_gpu() {
    if (parameters_.flat_weight.is_same(parameters_.flat_main)) return;
    at::Tensor flat = parameters_.flat_weight;
    if (!parameters_.is_shared) return static_cast<void>(flat.copy_(parameters_.flat_main));
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i)
        own_rows(parameters_, i, parameters_.weight[i]).copy_(parameters_.main[i]);
}

}  // namespace roll::train
