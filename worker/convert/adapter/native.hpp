// Reads native (Megatron) adapters from disk. Each rank has a file with the LoRA of its tensor
// shards.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// Return the LoRA tensors of a native tensor: A, B and the magnitude. A is [lora_rank, in]; row
// parallelism splits its columns. B is [out, lora_rank]; column parallelism splits B in the same
// way as the native tensor. The magnitude is [out].
families::NativeTensor lora_a_of(const families::NativeTensor& tensor, std::int64_t lora_rank);
families::NativeTensor lora_b_of(const families::NativeTensor& tensor, std::int64_t lora_rank);
families::NativeTensor magnitude_of(const families::NativeTensor& tensor);

Result<formats::Adapter> read_native_adapter(const std::filesystem::path& directory,
                                             const Source& base);

// Opens the adapter's tensors under their native names. Does not convert them.
Result<Source> open_native_tensors(const std::filesystem::path& directory, const Source& base);

}  // namespace roll::convert
