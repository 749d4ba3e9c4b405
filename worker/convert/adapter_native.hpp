// Native adapters on disk: for each rank a file with the LoRA of its part of each tensor.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// A native tensor's A [lora_rank, in], which row parallelism splits by columns; its B
// [out, lora_rank], which column parallelism splits as it does the tensor; its magnitude [out].
families::NativeTensor lora_a_of(const families::NativeTensor& tensor, std::int64_t lora_rank);
families::NativeTensor lora_b_of(const families::NativeTensor& tensor, std::int64_t lora_rank);
families::NativeTensor magnitude_of(const families::NativeTensor& tensor);

Result<formats::Adapter> read_native_adapter(const std::filesystem::path& directory,
                                             const Source& base);

// The same tensors as they lie there, under native names.
Result<Source> open_native_tensors(const std::filesystem::path& directory, const Source& base);

}  // namespace roll::convert
