// Norms of the gradient, the weights and the update of each layer of the whole model. The norms are
// computed from sums over the trained parameters, so they do not depend on the layout.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/train/model/chunk.hpp"
#include "worker/train/pipeline/step_result.hpp"
#include "worker/train/pipeline/whole_model.hpp"

namespace roll::train {

// A trained parameter that this rank includes in sums over the whole model.
struct CountedParameter {
    const Parameters* parameters = nullptr;
    std::size_t index = 0;
};

// Returns the parameters that this rank includes in sums over the whole model. Exactly one rank of
// a replica includes each element. If every tensor-parallel rank holds the whole parameter, the
// first of these ranks includes it. The last stage includes a tied embedding. If replicas share
// optimizer state, each replica includes its own rows.
std::vector<CountedParameter> counted_parameters(std::deque<Chunk>& chunks, bool tied);

// Returns the gradient of the own rows of parameter `i`, without padding.
at::Tensor own_gradient(const Parameters& p, std::size_t i);

// Returns the layer of a parameter for people: "layer_3", "embedding", "final_layernorm", ...
std::string layer_of(const std::string& parameter);

// Measures one update of the weights. Holds a copy of this rank's own main weights meanwhile.
class LayerMeasure {
  public:
    // Must be called right before the update. `whole`: the parameters of the whole model.
    LayerMeasure(std::vector<CountedParameter> counted, const std::vector<WholeParameter>& whole);

    // Returns this rank's sums of squares of the gradient, the weights before the update, and the
    // update, [layers, 3], doubles. Must be called right after the update.
    at::Tensor finish();

    // Returns the norms of the layers from the sums of all ranks. Divides the gradient by
    // `loss_scale`.
    std::vector<LayerNorms> norms(const at::Tensor& sums_L3, double loss_scale) const;

  private:
    std::size_t row_of(const std::string& parameter) const;

    std::vector<CountedParameter> counted_;
    std::vector<std::string> layers_;  // in the order of forward
    std::vector<at::Tensor> before_;   // main weights of counted_, before the update
    at::Tensor sums_L3_;
};

}  // namespace roll::train
