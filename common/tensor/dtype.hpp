// Element types of stored tensors, and their conversion. No arithmetic, no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace roll::tensor {

// In the order of the safetensors format, which lays tensors out from the last to the first.
enum class DType : std::uint8_t {
    Bool,
    F4,
    F6E2M3,
    F6E3M2,
    U8,
    I8,
    F8E5M2,
    F8E4M3,
    F8E8M0,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    I16,
    U16,
    F16,
    BF16,
    I32,
    U32,
    F32,
    C64,
    F64,
    I64,
    U64
};
constexpr int kDTypes = 22;

int bits_of(DType dtype);

// "F32", "BF16", ...: the names of safetensors.
const char* name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// "float32", "bfloat16", ...: torch's names, as a config's torch_dtype has them; empty if torch has
// none.
const char* torch_name_of(DType dtype);

// F16, BF16, F32 or F64: what a conversion may cast.
bool is_castable(DType dtype);

// Those, and F8E4M3 and F8E5M2: what a cast may come from.
bool is_widened(DType dtype);

// Casts elements as torch does: round to nearest even, overflow to infinity, denormals kept, a NaN
// becomes a NaN. From a widened type to a castable one; sizes agree, and `to` may not overlap
// `from`. Unaligned is fine.
void cast(DType from_type, std::span<const std::byte> from, DType to_type, std::span<std::byte> to);

// One value, for comparing. `element` points at the bytes of one castable element.
double load_float(DType dtype, const std::byte* element);

}  // namespace roll::tensor
