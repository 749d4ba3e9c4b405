#include "worker/train/data/corpus/mersenne_twister.hpp"

#include <algorithm>

namespace roll::data {

MersenneTwister::MersenneTwister(std::uint32_t seed) {
    state_[0] = seed;
    for (std::uint32_t i = 1; i < kSize; ++i) {
        const std::uint32_t before = state_[i - 1];
        state_[i] = 1812433253U * (before ^ (before >> 30U)) + i;
    }
}

void MersenneTwister::refill() {
    for (std::size_t i = 0; i < kSize; ++i) {
        const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[i + 1] & 0x7FFFFFFFU);
        state_[i + kSize] = state_[i + kMiddle] ^ (y >> 1U) ^ ((0U - (y & 1U)) & 0x9908B0DFU);
    }
    for (std::size_t i = 0; i < kSize; ++i) {
        std::uint32_t y = state_[i + kSize];
        state_[i] = y;
        y ^= y >> 11U;
        y ^= (y << 7U) & 0x9D2C5680U;
        y ^= (y << 15U) & 0xEFC60000U;
        words_[i] = y ^ (y >> 18U);
    }
    next_ = 0;
}

}  // namespace roll::data
