// Represents LoRA adapters as tensors with PEFT's names. Adapters are written and compared in this
// form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

constexpr const char* kPeftFile = "adapter_model.safetensors";

// Returns the adapter's tensors with PEFT's names. They are views into buffers that `adapter` owns.
std::vector<tensor::StridedView> peft_tensors(const formats::Adapter& adapter);

// Copies a matrix to `to`. The elements of a row are `column_step` elements apart, and the rows
// `row_step` elements.
void copy_matrix(const tensor::StridedView& from, std::byte* to, std::int64_t row_step,
                 std::int64_t column_step);

// Returns true if two matrices have the same type, shape and bytes.
bool same_matrix(const tensor::StridedView& one, const tensor::StridedView& other);

// Returns a source whose model consists of exactly these tensors, so that they can be copied and
// cast.
Source source_of(const std::vector<tensor::StridedView>& views);

}  // namespace roll::convert
