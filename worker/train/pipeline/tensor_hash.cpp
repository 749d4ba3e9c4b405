#include "worker/train/pipeline/tensor_hash.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ULL;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * kPrime;
    return hash ^ (hash >> 29U);
}

}  // namespace

// Hashes several lanes in parallel, so that the multiplications overlap.
std::int64_t hash_of(const at::Tensor& tensor) {
    constexpr std::size_t kLanes = 8, kBlock = kLanes * sizeof(std::uint64_t);
    const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    const std::size_t size = tensor.nbytes();
    std::array<std::uint64_t, kLanes> lanes{};
    std::size_t at = 0;
    for (; at + kBlock <= size; at += kBlock)
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + at + lane * sizeof word, sizeof word);
            lanes[lane] = mixed(lanes[lane], word);
        }
    std::uint64_t hash = size;
    for (const std::uint64_t lane : lanes) hash = mixed(hash, lane);
    for (; at < size; ++at) hash = mixed(hash, static_cast<std::uint64_t>(bytes[at]));
    return static_cast<std::int64_t>(hash);
}

}  // namespace roll::train
