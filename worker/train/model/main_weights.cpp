// Reads and writes the main weights of parameters (declared in parameters.hpp).
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/cpu/simd/halves.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // minimum number of elements per thread

void join_into(const at::Tensor& main, const at::Tensor& weight, const at::Tensor& rest) {
    const auto* high = weight.const_data_ptr<at::BFloat16>();
    const auto* low = rest.const_data_ptr<std::int16_t>();
    auto* out = main.data_ptr<float>();
    at::parallel_for(0, main.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = simd::join(high[i], low[i]);
    });
}

// Rounds float32 values to the bfloat16 numbers `high`.
void round_to(std::span<const float> main, at::BFloat16* high) {
    at::parallel_for(0, std::ssize(main), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) high[i] = simd::nearest(main[i]);
    });
}

// Splits float32 values into two 16-bit halves (simd/halves.hpp). Works on several values at once,
// so that the compiler can vectorize the loop.
void split_halves(std::span<const float> main, at::BFloat16* high, std::int16_t* low) {
    at::parallel_for(0, std::ssize(main), kGrain, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kLanes = 16;
        const float* const from = main.data();
        std::int64_t i = begin;
        for (; i + kLanes <= end; i += kLanes) {
            for (std::int64_t lane = i; lane < i + kLanes; ++lane)
                high[lane] = simd::nearest(from[lane]);
            for (std::int64_t lane = i; lane < i + kLanes; ++lane)
                low[lane] = simd::rest_of(from[lane]);
        }
        for (; i < end; ++i) {
            high[i] = simd::nearest(from[i]);
            low[i] = simd::rest_of(from[i]);
        }
    });
}

}  // namespace

void copy_main(const Parameters& p, std::size_t i, const at::Tensor& to, std::int64_t begin) {
    const auto part = [&](const at::Tensor& own) {
        return own.flatten().narrow(0, begin, to.numel());
    };
    const bool is_base = p.specs[i].lora == LoraRole::Base;
    if (p.specs[i].form.is_packed())
        to.flatten().copy_(
            part(ops::unpacked(p.specs[i].form, own_rows(p, i, p.weight[i]), main_type(p))));
    else if (p.flat_rest.defined())
        join_into(to, part(own_rows(p, i, p.weight[i])), part(p.rest[i]));
    else
        to.flatten().copy_(part(is_base ? own_rows(p, i, p.weight[i]) : p.main[i]));
}

at::Tensor main_to_write(const Parameters& p, std::size_t i) {
    const bool is_main = p.flat_weight.is_same(p.flat_main) && p.flat_main.is_cpu();
    return is_main && !p.is_split[i] ? p.weight[i] : at::empty(p.specs[i].sizes, main_type(p));
}

void set_main(const Parameters& p, std::size_t i, const at::Tensor& written) {
    if (p.flat_rest.defined())
        return set_halves(
            p, i, 0, {written.const_data_ptr<float>(), static_cast<std::size_t>(written.numel())});
    if (!p.weight[i].is_same(written))
        p.weight[i].copy_(p.is_split[i] ? own_rows(p, i, written) : written);
    if (!p.flat_weight.is_same(p.flat_main) && p.specs[i].lora != LoraRole::Base)
        p.main[i].copy_(own_rows(p, i, written));
}

void set_halves(const Parameters& p, std::size_t i, std::int64_t begin,
                std::span<const float> written) {
    const std::int64_t row = c10::multiply_integers(p.specs[i].sizes) / p.specs[i].sizes[0],
                       end = begin + std::ssize(written);
    // Address of the whole weight's first row, even if this rank does not store that row
    auto* const high =
        p.weight[i].data_ptr<at::BFloat16>() - (p.is_split[i] ? p.own[i].begin * row : 0);
    const bool is_base = p.specs[i].lora == LoraRole::Base;
    if (is_base && !p.is_split[i]) return round_to(written, high + begin);
    const std::int64_t first = std::clamp(p.own[i].begin * row, begin, end);
    const std::int64_t last = std::clamp((p.own[i].begin + p.own[i].count) * row, first, end);
    const auto part = [&](std::int64_t from, std::int64_t to) {
        return written.subspan(static_cast<std::size_t>(from - begin),
                               static_cast<std::size_t>(to - from));
    };
    if (is_base) return round_to(part(first, last), high + first);
    auto* const low = p.rest[i].data_ptr<std::int16_t>();
    split_halves(part(first, last), high + first, low + (first - p.own[i].begin * row));
    if (p.is_split[i]) return;
    round_to(part(begin, first), high + begin);
    round_to(part(last, end), high + last);
}

}  // namespace roll::train
