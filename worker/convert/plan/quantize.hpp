// Makes 8-bit weights with a scale per block of 128 x 128: weight = F8_E4M3 value * NAME_scale_inv.
// DeepSeek-V3 is published in this form, and transformers' FineGrainedFP8Config reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/plan/rows.hpp"

namespace roll::convert {

constexpr tensor::DType kEightBits = tensor::DType::F8E4M3;

// Returns the layout with a tensor of scales after each weight of the decoder layers' linear
// modules. If the source has scales, adds scales for the same weights as in the source instead.
std::vector<Stored> with_scales(const Source& source, std::vector<Stored> layout);

// Returns the quantization_config that describes the target's 8-bit weights.
Json quantization_of(const Source& source, const Plan& plan);

// Like gather_copies(), for a target with 8-bit blocks. If the source has blocks and nothing
// changes them, copies the blocks. In all other cases quantizes like transformers (Fp8Quantize):
// multiplies a block in fp32 by 448 / the largest magnitude in it, rounds to nearest even, and
// stores the inverse of the factor as scale.
Result<void> gather_blocks(const Source& source, const TargetTensor& target, const Window& write);

// Returns the nearest F8_E4M3 value (a type without infinities): clamps to +-448, keeps NaN.
std::uint8_t to_e4m3(float value);

// Compares the written 8-bit values and scales with the source byte by byte. Fails with Corrupt if
// they differ; the message names the tensor.
Result<void> check_blocks(const Source& source, const Plan& plan, const Source& written);

}  // namespace roll::convert
