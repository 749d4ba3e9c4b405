// LoRA adapters as tensors with PEFT's names, the form in which they are written and compared.
#pragma once

#include <vector>

#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

constexpr const char* kPeftFile = "adapter_model.safetensors";

// Returns the adapter's tensors with PEFT's names, as views into buffers that `adapter` keeps.
std::vector<tensor::StridedView> peft_tensors(const formats::Adapter& adapter);

// Returns a source whose model consists of exactly these tensors, so that they can be copied and
// cast.
Source source_of(const std::vector<tensor::StridedView>& views);

}  // namespace roll::convert
