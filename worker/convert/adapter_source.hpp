// LoRA adapters as tensors of PEFT's names, which is how they are written and compared.
#pragma once

#include <vector>

#include "worker/convert/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

constexpr const char* kPeftFile = "adapter_model.safetensors";

// Views into what the adapter keeps.
std::vector<tensor::StridedView> peft_tensors(const formats::Adapter& adapter);

// A source whose model is just these tensors: what copies and casts them.
Source source_of(const std::vector<tensor::StridedView>& views);

}  // namespace roll::convert
