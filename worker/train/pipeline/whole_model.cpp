#include "worker/train/pipeline/whole_model.hpp"

#include <ATen/ATen.h>

namespace roll::train {

std::vector<WholeParameter> whole_model(const spec::ModelConfig& config,
                                        std::span<const ChunkSpec> chunks,
                                        const plan::PipelineSchedule& schedule,
                                        const Communicator* tp,
                                        const std::vector<std::string>& freeze) {
    std::vector<WholeParameter> whole;
    for (int number = 0; number < std::ssize(chunks); ++number) {
        ChunkSpec part = chunks[number];
        std::vector<ParameterSpec> specs = parameter_specs(config, part);
        if (tp != nullptr) {
            part.tp = tp->size();
            part.tp_rank = tp->rank();
        }
        std::vector<ParameterSpec> own = parameter_specs(config, part);
        if (config.tied && part.post && !part.pre) specs.pop_back();
        mark_frozen(specs, freeze);
        const plan::Home home = schedule.home(number);
        for (std::size_t i = 0; i < specs.size(); ++i)
            whole.push_back({std::move(specs[i]), std::move(own[i]), home.rank,
                             static_cast<std::size_t>(home.chunk), i});
    }
    return whole;
}

std::vector<WholeParameter> saved_parameters(const std::vector<WholeParameter>& whole) {
    std::vector<WholeParameter> saved;
    for (const WholeParameter& parameter : whole)
        if (parameter.spec.lora != LoraRole::Base) saved.push_back(parameter);
    return saved;
}

std::vector<ParameterSpec> specs_of(const std::vector<WholeParameter>& whole) {
    std::vector<ParameterSpec> specs;
    for (const WholeParameter& parameter : whole) specs.push_back(parameter.spec);
    return specs;
}

namespace {

// Writes the whole tensors to `to` on every rank of the group. No two ranks' parts overlap. Each
// rank adds its part, with zeros elsewhere, so the sum is exact.
void join_parts(const ParameterSpec& own, Communicator* tp, at::ScalarType type,
                std::span<const at::Tensor> to, Tag tag, const CopyTensors& copy) {
    if (own.parts.empty()) return copy(to);
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < to.size(); ++i) parts.push_back(at::empty(own.sizes, type));
    copy(parts);
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i].zero_();
        copy_to_whole(own, parts[i], to[i]);
        sum_over(*tp, to[i], tag);
    }
}

}  // namespace

void copy_to_first(const WholeParameter& parameter, Communicator& pp, Communicator* tp,
                   at::ScalarType type, std::span<const at::Tensor> to, const CopyTensors& copy) {
    const int holder = parameter.rank;
    const Tag tag{Site::Weights, static_cast<int>(parameter.index)};
    const bool is_first_of_tp = tp == nullptr || tp->rank() == 0;
    const auto joined = [&] {
        std::vector<at::Tensor> buffers;
        for (std::size_t i = 0; i < to.size(); ++i)
            buffers.push_back(at::empty(parameter.spec.sizes, type));
        join_parts(parameter.own, tp, type, buffers, tag, copy);
        return buffers;
    };
    if (!is_first_of_tp) {
        if (pp.rank() == holder) joined();
        return;
    }
    if (pp.rank() == 0 && holder == 0) return join_parts(parameter.own, tp, type, to, tag, copy);
    // The first stage answers after each parameter, and the stage that holds the parameter waits
    // for this answer. Therefore, that stage needs buffers for only one parameter at a time.
    at::Tensor answer = at::zeros({1});
    if (pp.rank() == 0) {
        for (at::Tensor one : to) {
            at::Tensor received = at::empty(parameter.spec.sizes, type);
            pp.wait(pp.receive(received, holder, tag));
            one.copy_(received);
        }
        pp.send(answer, holder, tag);
    } else if (pp.rank() == holder) {
        for (const at::Tensor& one : joined()) pp.send(one, 0, tag);
        pp.wait(pp.receive(answer, 0, tag));
    }
}

at::Tensor joined_main(const Parameters& p, std::size_t i, Communicator& dp) {
    const at::Tensor whole = at::zeros(p.specs[i].sizes, main_type(p));
    copy_main(p, i, own_rows(p, i, whole));
    sum_over(dp, whole, {Site::Weights, static_cast<int>(i)});
    return whole;
}

}  // namespace roll::train
