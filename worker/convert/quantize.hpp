// Weights of eight bits with a scale for each block of 128 x 128, as DeepSeek-V3 is published and
// transformers' FineGrainedFP8Config reads: weight = F8_E4M3 number x NAME_scale_inv.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/gather.hpp"

namespace roll::convert {

constexpr tensor::DType kEightBits = tensor::DType::F8E4M3;

// The layout of HuggingFace tensors with a tensor of scales behind each weight of a decoder layer's
// linear modules; of a source that has scales, behind those that it has.
std::vector<Stored> with_scales(const Source& source, std::vector<Stored> layout);

// What the config says of such weights.
Json quantization_of(const Source& source, const Plan& plan);

// As gather(), of a target with blocks. Where the source has these blocks already and nothing
// changes them, they travel as they are; else as transformers quantizes (Fp8Quantize): a block is
// multiplied in fp32 with 448 / its largest magnitude and rounded to nearest even, and its scale is
// the inverse of that.
Result<void> gather_blocks(const Source& source, const TargetTensor& target, const Window& write);

// The number of F8_E4M3 (no infinities) nearest to the value: +-448 beyond, a NaN for a NaN.
std::uint8_t to_e4m3(float value);

// Blocks and scales in a written directory against what they are made of, byte by byte. Corrupt
// names the tensor.
Result<void> check_blocks(const Source& source, const Plan& plan, const Source& written);

}  // namespace roll::convert
