// Element types of stored tensors, and their conversion. No arithmetic, no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace roll::tensor {

// The element types, in the order that the safetensors format defines. A safetensors file stores
// the tensors in the opposite order of their types: tensors of the last type first.
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

// Returns the name in safetensors files: "F32", "BF16", ...
const char* name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// Returns torch's name, as in a config's torch_dtype: "float32", "bfloat16", ...; empty if torch
// has no such type.
const char* torch_name_of(DType dtype);

// Returns whether cast() can produce the type: F16, BF16, F32 or F64.
bool is_castable(DType dtype);

// Returns whether cast() can read the type: a castable type, F8E4M3 or F8E5M2.
bool is_widened(DType dtype);

// Casts elements as torch does: rounds to nearest even, overflows to infinity, keeps denormals and
// NaNs. is_widened(from_type) and is_castable(to_type) must be true. The buffers must have the same
// number of elements and must not overlap, but may be unaligned.
void cast(DType from_type, std::span<const std::byte> from, DType to_type, std::span<std::byte> to);

// Returns one element as a double. `element` points at the bytes of the element. The type must be
// castable.
double load_float(DType dtype, const std::byte* element);

}  // namespace roll::tensor
