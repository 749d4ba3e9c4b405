#include "worker/train/pipeline/whole_model.hpp"

#include <ATen/ATen.h>

namespace roll::train {

std::vector<WholeParameter> whole_model(const spec::ModelConfig& config,
                                        std::span<const ChunkSpec> chunks, int pp,
                                        const std::vector<std::string>& freeze) {
    std::vector<WholeParameter> whole;
    for (int number = 0; number < std::ssize(chunks); ++number) {
        const ChunkSpec& part = chunks[number];
        std::vector<ParameterSpec> specs = parameter_specs(config, part);
        if (config.tied && part.post && !part.pre) specs.pop_back();
        mark_frozen(specs, freeze);
        for (std::size_t i = 0; i < specs.size(); ++i)
            whole.push_back(
                {std::move(specs[i]), number % pp, static_cast<std::size_t>(number / pp), i});
    }
    return whole;
}

std::vector<ParameterSpec> specs_of(const std::vector<WholeParameter>& whole) {
    std::vector<ParameterSpec> specs;
    for (const WholeParameter& parameter : whole) specs.push_back(parameter.spec);
    return specs;
}

void copy_to_first(const WholeParameter& parameter, Communicator& pp, at::ScalarType type,
                   std::span<const at::Tensor> to, const CopyTensors& copy) {
    const int holder = parameter.rank;
    if (pp.rank() == 0 && holder == 0) return copy(to);
    // The first stage answers each parameter, so that the holder has buffers for one at a time.
    at::Tensor answer = at::zeros({1});
    if (pp.rank() == 0) {
        for (at::Tensor one : to) {
            at::Tensor received = at::empty(parameter.spec.sizes, type);
            pp.recv(received, holder, Channel::Activation);
            one.copy_(received);
        }
        pp.send(answer, holder, Channel::Gradient);
    } else if (pp.rank() == holder) {
        std::vector<at::Tensor> buffers;
        for (std::size_t i = 0; i < to.size(); ++i)
            buffers.push_back(at::empty(parameter.spec.sizes, type));
        copy(buffers);
        for (const at::Tensor& one : buffers) pp.send(one, 0, Channel::Activation);
        pp.recv(answer, 0, Channel::Gradient);
    }
}

}  // namespace roll::train
