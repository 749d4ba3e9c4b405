// Vectors of numbers in the type of the computation (Wide). Loads and stores convert from and to
// the storage type. Only the other *_impl.hpp include this file. The rules of kernels_impl.hpp
// apply.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include "worker/train/ops/cpu/simd/kernels.hpp"

namespace roll::simd {
namespace {

template <class T>
using Vec = at::vec::Vectorized<T>;

struct Plus {
    template <class V>
    V operator()(V a, V b) const {
        return a + b;
    }
};

struct Larger {
    template <class V>
    V operator()(V a, V b) const {
        return at::vec::maximum(a, b);
    }
};

#ifdef __AVX512BF16__

// first_lanes() returns a mask of the first `size` of 16 lanes. halves() loads the masked lanes as
// bfloat16; another overload rounds masked float lanes to bfloat16.
inline __attribute__((always_inline)) __mmask16 first_lanes(std::int64_t size) {
    return static_cast<__mmask16>(size < 16 ? (1U << size) - 1 : 0xFFFFU);
}
inline __attribute__((always_inline)) __m256i halves(const c10::BFloat16* from, __mmask16 lanes) {
    return _mm256_maskz_loadu_epi16(lanes, from);
}
inline __attribute__((always_inline)) __m256i halves(const float* from, __mmask16 lanes) {
    return std::bit_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, from)));
}

#endif

// load_wide() loads and widens one vector of float lanes. low_half() widens the first half of the
// numbers in a vector.
inline __attribute__((always_inline)) void load_wide(const c10::BFloat16* from, Vec<float>& to) {
    at::vec::load_fp32_from_bf16(from, to);
}
inline __attribute__((always_inline)) void load_wide(const c10::Half* from, Vec<float>& to) {
    at::vec::load_fp32_from_fp16(from, to);
}
inline __attribute__((always_inline)) Vec<float> low_half(const Vec<c10::BFloat16>& numbers) {
    return std::get<0>(at::vec::convert_bfloat16_float(numbers));
}
inline __attribute__((always_inline)) Vec<float> low_half(const Vec<c10::Half>& numbers) {
    return std::get<0>(at::vec::convert_half_float(numbers));
}

// Returns the first n numbers at `from`, widened. The other lanes are 0.
template <class S>
inline __attribute__((always_inline)) Vec<Wide<S>> get(const S* from, std::int64_t n) {
    const int count = static_cast<int>(n);
    if constexpr (std::is_same_v<S, Wide<S>>) {
        return Vec<S>::loadu(from, count);
    } else {
        Vec<float> wide;
        if (count == Vec<float>::size())
            load_wide(from, wide);
        else
            wide = low_half(Vec<S>::loadu(from, static_cast<std::int16_t>(n)));
        return wide;
    }
}

// Stores the first n lanes to `to`. Rounds each to the nearest number of type S.
template <class S>
inline __attribute__((always_inline)) void put(S* to, Vec<Wide<S>> lanes, std::int64_t n) {
    const int count = static_cast<int>(n);
    if constexpr (std::is_same_v<S, Wide<S>>) {
        lanes.store(to, count);
    } else if constexpr (std::is_same_v<S, c10::Half>) {
        at::vec::convert_float_half(lanes, lanes).store(to, count);
    } else {
#ifdef __AVX512BF16__
        const auto rounded = std::bit_cast<__m256i>(_mm512_cvtneps_pbh(lanes));
        if (n == 16)
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded);
        else
            _mm256_mask_storeu_epi16(to, first_lanes(n), rounded);
#else
        at::vec::convert_float_bfloat16(lanes, lanes).store(to, count);
#endif
    }
}

// Calls step(i, n) for `size` numbers, one vector at a time. i is the index of the vector's first
// number, and n is the number of lanes in use.
template <class W, class Step>
inline __attribute__((always_inline)) void for_lanes(std::int64_t size, const Step& step) {
    constexpr std::int64_t kWidth = Vec<W>::size();
    std::int64_t i = 0;
    for (; i + kWidth <= size; i += kWidth) step(i, kWidth);
    if (i < size) step(i, size - i);
}

template <class T>
void fill(T* out, T value, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) out[i] = value;
}

// Returns the sum of term(i, n) over all lanes of all vectors (for_lanes). A term must be 0 in
// unused lanes.
template <class W, class Term>
inline __attribute__((always_inline)) W sum_of(std::int64_t size, const Term& term) {
    constexpr std::int64_t kWidth = Vec<W>::size();
    Vec<W> sums[4] = {Vec<W>(0), Vec<W>(0), Vec<W>(0), Vec<W>(0)};
    std::int64_t i = 0;
    for (; i + 4 * kWidth <= size; i += 4 * kWidth)
        for (int part = 0; part < 4; ++part)
            sums[part] = sums[part] + term(i + part * kWidth, kWidth);
    for_lanes<W>(size - i,
                 [&](std::int64_t j, std::int64_t n) { sums[0] = sums[0] + term(i + j, n); });
    return at::vec::vec_reduce_all<W>(Plus(), (sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Returns `numbers` if S needs no widening. Otherwise, returns a widened copy in `room`.
template <class S>
auto widened(S* numbers, Wide<std::remove_const_t<S>>* room, std::int64_t size) {
    if constexpr (std::is_same_v<std::remove_const_t<S>, Wide<std::remove_const_t<S>>>) {
        return numbers;
    } else {
        for_lanes<float>(size, [&](std::int64_t i, std::int64_t n) {
            put(room + i, get<std::remove_const_t<S>>(numbers + i, n), n);
        });
        return room;
    }
}

}  // namespace
}  // namespace roll::simd
