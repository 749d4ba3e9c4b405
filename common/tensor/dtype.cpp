#include "common/tensor/dtype.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "common/check.hpp"
#include "common/tensor/bfloat.hpp"
#include "common/tensor/vectorized.hpp"

namespace roll::tensor {
namespace {

struct Row {
    const char* name;
    int bits;
    const char* torch_name;
};

constexpr std::array<Row, kDTypes> kRows{{{"BOOL", 8, "bool"},
                                          {"F4", 4, ""},
                                          {"F6_E2M3", 6, ""},
                                          {"F6_E3M2", 6, ""},
                                          {"U8", 8, "uint8"},
                                          {"I8", 8, "int8"},
                                          {"F8_E5M2", 8, "float8_e5m2"},
                                          {"F8_E4M3", 8, "float8_e4m3fn"},
                                          {"F8_E8M0", 8, "float8_e8m0fnu"},
                                          {"F8_E4M3FNUZ", 8, "float8_e4m3fnuz"},
                                          {"F8_E5M2FNUZ", 8, "float8_e5m2fnuz"},
                                          {"I16", 16, "int16"},
                                          {"U16", 16, "uint16"},
                                          {"F16", 16, "float16"},
                                          {"BF16", 16, "bfloat16"},
                                          {"I32", 32, "int32"},
                                          {"U32", 32, "uint32"},
                                          {"F32", 32, "float32"},
                                          {"C64", 64, "complex64"},
                                          {"F64", 64, "float64"},
                                          {"I64", 64, "int64"},
                                          {"U64", 64, "uint64"}}};

float half_to_float(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16U;
    const std::uint32_t exponent = (h >> 10U) & 0x1FU;
    const std::uint32_t mantissa = h & 0x3FFU;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
    return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

// Converts to half precision, rounding to nearest even. Rounds a denormal result by adding 0.5F.
// The last mantissa bit of the sum then stands for 2^-24, as does the last bit of the result, so
// the addition itself rounds correctly.
std::uint16_t float_to_half(float f) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
    if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (magnitude < 0x38800000U) {  // below 2^-14 the result is denormal and counts units of 2^-24
        const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(
            sign | (std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5F)));
    }
    const std::uint32_t odd = (magnitude >> 13U) & 1U;
    const std::uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + odd;
    return static_cast<std::uint16_t>(sign | (rounded >> 13U));
}

struct F16 {
    using Bits = std::uint16_t;
    static float widen(Bits b) { return half_to_float(b); }
    static Bits narrow(float f) { return float_to_half(f); }
};
struct BF16 {
    using Bits = std::uint16_t;
    static float widen(Bits b) { return bfloat_to_float(b); }
    static Bits narrow(float f) { return float_to_bfloat(f); }
};
struct F32 {
    using Bits = float;
    static float widen(Bits b) { return b; }
    static Bits narrow(float f) { return f; }
};
// The 8-bit types can only be read, not written. A byte of E5M2 is the high byte of a half. E4M3
// has no infinity.
struct F8E5M2 {
    using Bits = std::uint8_t;
    static float widen(Bits b) { return half_to_float(static_cast<std::uint16_t>(b << 8U)); }
};
struct F8E4M3 {
    using Bits = std::uint8_t;
    static float widen(Bits b) {
        const std::uint32_t sign = (b & 0x80U) << 24U;
        const std::uint32_t magnitude = b & 0x7FU;
        if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
        if (magnitude >= 0x08U)
            return std::bit_cast<float>(sign | ((magnitude << 20U) + 0x3C000000U));
        const float denormal = static_cast<float>(magnitude) * 0x1p-9F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(denormal));
    }
};
// Casts fp64 to fp32 and then to the 16-bit type. This rounds twice, as torch does.
struct F64 {
    using Bits = double;
    static float widen(Bits b) { return static_cast<float>(b); }
    static Bits narrow(float f) { return static_cast<double>(f); }
};

template <class From, class To>
ROLL_VECTORIZED void cast_all(std::span<const std::byte> from, std::span<std::byte> to) {
    const std::size_t count = from.size() / sizeof(typename From::Bits);
    for (std::size_t i = 0; i < count; ++i) {
        typename From::Bits in;
        std::memcpy(&in, from.data() + i * sizeof in, sizeof in);
        const typename To::Bits out = To::narrow(From::widen(in));
        std::memcpy(to.data() + i * sizeof out, &out, sizeof out);
    }
}

template <class From>
void cast_from(std::span<const std::byte> from, DType to_type, std::span<std::byte> to) {
    switch (to_type) {
        case DType::F16: return cast_all<From, F16>(from, to);
        case DType::BF16: return cast_all<From, BF16>(from, to);
        case DType::F32: return cast_all<From, F32>(from, to);
        case DType::F64: return cast_all<From, F64>(from, to);
        default: ROLL_CHECK(is_castable(to_type));
    }
}

}  // namespace

int bits_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].bits; }
const char* name_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }
const char* torch_name_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].torch_name; }

std::optional<DType> parse_dtype(std::string_view name) {
    for (std::size_t i = 0; i < kRows.size(); ++i)
        if (name == kRows[i].name) return static_cast<DType>(i);
    return std::nullopt;
}

bool is_castable(DType dtype) {
    return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 ||
           dtype == DType::F64;
}

bool is_widened(DType dtype) {
    return is_castable(dtype) || dtype == DType::F8E4M3 || dtype == DType::F8E5M2;
}

void cast(DType from_type, std::span<const std::byte> from, DType to_type,
          std::span<std::byte> to) {
    const auto from_bytes = static_cast<std::size_t>(bits_of(from_type)) / 8;
    const auto to_bytes = static_cast<std::size_t>(bits_of(to_type)) / 8;
    ROLL_CHECK(from.size() % from_bytes == 0 && from.size() / from_bytes * to_bytes == to.size());
    if (from_type == to_type) {
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
        return;
    }
    switch (from_type) {
        case DType::F16: return cast_from<F16>(from, to_type, to);
        case DType::BF16: return cast_from<BF16>(from, to_type, to);
        case DType::F32: return cast_from<F32>(from, to_type, to);
        case DType::F64: return cast_from<F64>(from, to_type, to);
        case DType::F8E4M3: return cast_from<F8E4M3>(from, to_type, to);
        case DType::F8E5M2: return cast_from<F8E5M2>(from, to_type, to);
        default: ROLL_CHECK(is_widened(from_type));
    }
}

double load_float(DType dtype, const std::byte* element) {
    double value = 0;
    const auto size = static_cast<std::size_t>(bits_of(dtype)) / 8;
    if (dtype == DType::F64) {
        std::memcpy(&value, element, size);
    } else {
        cast(dtype, {element, size}, DType::F64,
             {reinterpret_cast<std::byte*>(&value), sizeof value});  // NOLINT: bytes of a double
    }
    return value;
}

}  // namespace roll::tensor
