// The factors of matrix products, that is, the elements that product() multiplies. A factor is
// usually one number in the type of the computation. If the processor multiplies bfloat16, a factor
// is a pair of bfloat16 numbers: one instruction multiplies two pairs element by element and adds
// both products to a sum. Only product_impl.hpp includes this file. The rules of kernels_impl.hpp
// apply.
#pragma once

#include <cstdint>

#include "worker/train/ops/cpu/simd/lanes_impl.hpp"

namespace roll::simd {
namespace {

template <class T>
struct Rows {  // a row-major matrix; `stride` is the distance between rows
    T* data;
    std::int64_t stride;

    Rows from(std::int64_t row) const { return {data + row * stride, stride}; }
};
template <class E>
struct Elements {  // a row-major or column-major matrix
    const E* data;
    std::int64_t row_stride, column_stride;
};

// kNumbers<E> is the number of numbers in one factor. factors(numbers) returns how many factors are
// needed for `numbers` numbers.
template <class E>
constexpr std::int64_t kNumbers = 1;
template <class E>
constexpr std::int64_t factors(std::int64_t numbers) {
    return (numbers + kNumbers<E> - 1) / kNumbers<E>;
}

template <class T>
inline __attribute__((always_inline)) Vec<T> lanes(const T* from, int size) {
    return Vec<T>::loadu(from, size);
}
template <class T>
inline __attribute__((always_inline)) Vec<T> in_all_lanes(T factor) {
    return Vec<T>(factor);
}
template <class T>
inline __attribute__((always_inline)) Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> sum) {
    return at::vec::fmadd(a, b, sum);
}

#ifdef __AVX512BF16__

struct alignas(4) Pair {
    c10::BFloat16 even, odd;
};
template <>
constexpr std::int64_t kNumbers<Pair> = 2;

// The type of factors for numbers that are stored as S.
template <class S>
using Factor = std::conditional_t<std::is_same_v<S, c10::BFloat16>, Pair, Wide<S>>;

inline __attribute__((always_inline)) __m512i lanes(const Pair* from, int size) {
    if (size == 16) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi32(first_lanes(size), from);
}
inline __attribute__((always_inline)) __m512i in_all_lanes(Pair factor) {
    return _mm512_set1_epi32(std::bit_cast<int>(factor));
}
inline __attribute__((always_inline)) Vec<float> multiply_add(__m512i a, __m512i b,
                                                              Vec<float> sum) {
    return _mm512_dpbf16_ps(sum, std::bit_cast<__m512bh>(a), std::bit_cast<__m512bh>(b));
}

#else

template <class S>
using Factor = Wide<S>;

#endif

}  // namespace
}  // namespace roll::simd
