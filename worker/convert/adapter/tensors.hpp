// Represents LoRA adapters as tensors with PEFT's names. Adapters are written and compared in this
// form.
#pragma once

#include <vector>

#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

constexpr const char* kPeftFile = "adapter_model.safetensors";

// Returns the adapter's tensors with PEFT's names. They are views into buffers that `adapter` owns.
std::vector<tensor::StridedView> peft_tensors(const formats::Adapter& adapter);

// Returns a source whose model consists of exactly these tensors, so that they can be copied and
// cast.
Source source_of(const std::vector<tensor::StridedView>& views);

}  // namespace roll::convert
