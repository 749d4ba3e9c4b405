// Makes 8-bit weights with one scale per block of 128 x 128: weight = F8_E4M3 value *
// NAME_scale_inv. DeepSeek-V3 is published in this form, and transformers' FineGrainedFP8Config
// reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/rows.hpp"

namespace roll::convert {

constexpr tensor::DType kEightBits = tensor::DType::F8E4M3;

// Adds a tensor of scales to `layout` after each weight that is quantized. If the source has
// scales, the weights with scales are quantized. Otherwise, the weights of the decoder's linear
// modules are quantized.
std::vector<Stored> with_scales(const Source& source, std::vector<Stored> layout);

// Returns the quantization_config that describes the target's 8-bit weights.
Json quantization_of(const Source& source, const Plan& plan);

// Passes a tensor of 8-bit values or of scales to `write`, like gather_copies(). Copies the blocks
// if the source has 8-bit blocks and no adapter changes the tensor. Otherwise quantizes like
// transformers (Fp8Quantize): multiplies each block in fp32 by 448 / (largest magnitude in the
// block) and rounds to nearest even. The scale is the inverse of this factor.
Result<void> gather_blocks(const Source& source, const TargetTensor& target, const Window& write);

// Returns the nearest F8_E4M3 value, clamped to +-448 because the type has no infinities. Keeps
// NaN.
std::uint8_t to_e4m3(float value);

// Compares the written 8-bit values and scales with the source, byte by byte. Fails with Corrupt if
// they differ; the message names the tensor.
Result<void> check_blocks(const Source& source, const Plan& plan, const Source& written);

}  // namespace roll::convert
