// HuggingFace directories whose linear layers bitsandbytes has quantized. A 4-bit weight X.weight
// has the tensors X.weight.absmax, .quant_map and .quant_state.bitsandbytes__nf4, and with packed
// scales .nested_absmax and .nested_quant_map. An 8-bit weight has X.SCB.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "common/tensor/view.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Returns true if the config says that bitsandbytes has quantized the weights.
bool is_bitsandbytes(const Json& hf_config);

class BitsTensors {
  public:
    // Keeps the tensor and returns true if it is a quantized weight, or a tensor that belongs to a
    // quantized weight, such as its scales. Returns false for other tensors.
    bool take(const std::string& file, const tensor::StridedView& view);

    // Passes each quantized weight to `add`, as a bf16 tensor of the weight's shape. The elements
    // of this tensor must not be read; source.overlay.bits describes how to compute them. Removes
    // the quantization from the source's config. Fails with Corrupt or InvalidArgument if a
    // weight's tensors are missing or wrong, or have a form that Roll does not support.
    Result<void> attach(Source& source,
                        const std::function<Result<void>(const std::string& file,
                                                         const tensor::StridedView&)>& add);

  private:
    // the file and the codes of each quantized weight, by the weight's name
    std::map<std::string, std::pair<std::string, tensor::StridedView>> weights_;
    std::map<std::string, tensor::StridedView> parts_;
};

}  // namespace roll::convert
