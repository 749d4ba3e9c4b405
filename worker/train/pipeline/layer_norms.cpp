#include "worker/train/pipeline/layer_norms.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/optim/gradient_sums.hpp"

namespace roll::train {
namespace {

at::Tensor main_of(const CountedParameter& one) {
    const Parameters& p = *one.parameters;
    const at::Tensor main = at::empty(own_rows(p, one.index, p.weight[one.index]).sizes(),
                                      at::TensorOptions(main_type(p)));
    copy_main(p, one.index, main);
    return main;
}

}  // namespace

std::vector<CountedParameter> counted_parameters(std::deque<Chunk>& chunks, bool tied) {
    std::vector<CountedParameter> counted;
    for (Chunk& chunk : chunks) {
        const Parameters& p = chunk.parameters();
        const ChunkSpec& part = chunk.part();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const bool is_copy = p.specs[i].parts.empty() && part.tp_rank > 0;
            const bool is_tied = tied && i == 0 && part.pre && !part.post;
            if (!p.specs[i].frozen && !is_copy && !is_tied) counted.push_back({&p, i});
        }
    }
    return counted;
}

at::Tensor own_gradient(const Parameters& p, std::size_t i) {
    const std::int64_t rows = unpadded_rows(p.specs[i]) - p.own[i].begin;
    return p.own_grad[i].narrow(0, 0, std::clamp(rows, std::int64_t{0}, p.own[i].count));
}

std::string layer_of(const std::string& parameter) {
    constexpr std::string_view kDecoder = "decoder.", kLayers = "layers.";
    std::string_view name = parameter;
    if (name.starts_with(kDecoder)) name.remove_prefix(kDecoder.size());
    const bool is_numbered = name.starts_with(kLayers);
    if (is_numbered) name.remove_prefix(kLayers.size());
    return (is_numbered ? "layer_" : "") + std::string(name.substr(0, name.find('.')));
}

LayerMeasure::LayerMeasure(std::vector<CountedParameter> counted,
                           const std::vector<WholeParameter>& whole)
    : counted_(std::move(counted)) {
    for (const WholeParameter& one : whole) {
        const std::string layer = layer_of(one.spec.name);
        const bool known = std::ranges::find(layers_, layer) != layers_.end();
        if (!one.spec.frozen && !known) layers_.push_back(layer);
    }
    sums_L3_ = at::zeros({std::ssize(layers_), 3}, at::kDouble);
    for (const CountedParameter& one : counted_) {
        const at::Tensor row_3 =
            sums_L3_[static_cast<std::int64_t>(row_of(one.parameters->specs[one.index].name))];
        before_.push_back(main_of(one));
        row_3[0] += square_sum(own_gradient(*one.parameters, one.index));
        row_3[1] += square_sum(before_.back());
    }
}

// Returns the index of a parameter's layer in layers_. The last stage's copy of a tied embedding
// belongs to the layer "embedding". The list of the whole model's parameters has the tied embedding
// only once.
std::size_t LayerMeasure::row_of(const std::string& parameter) const {
    auto found = std::ranges::find(layers_, layer_of(parameter));
    if (found == layers_.end()) found = std::ranges::find(layers_, "embedding");
    return static_cast<std::size_t>(found - layers_.begin());
}

at::Tensor LayerMeasure::finish() {
    for (std::size_t i = 0; i < counted_.size(); ++i) {
        const CountedParameter& one = counted_[i];
        const auto row = static_cast<std::int64_t>(row_of(one.parameters->specs[one.index].name));
        sums_L3_[row][2] += square_sum(main_of(one).sub_(before_[i]));
    }
    return sums_L3_;
}

std::vector<LayerNorms> LayerMeasure::norms(const at::Tensor& sums_L3, double loss_scale) const {
    std::vector<LayerNorms> norms;
    const auto* sums = sums_L3.const_data_ptr<double>();
    for (const std::string& layer : layers_) {
        norms.push_back(
            {layer, std::sqrt(sums[0]) / loss_scale, std::sqrt(sums[1]), std::sqrt(sums[2])});
        sums += 3;
    }
    return norms;
}

}  // namespace roll::train
