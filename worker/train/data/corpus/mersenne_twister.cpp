#include "worker/train/data/corpus/mersenne_twister.hpp"

#include "common/tensor/vectorized.hpp"

namespace roll::data {
namespace {

constexpr std::size_t kTwisterMiddle = 397;

// Replaces a state by the next one and writes its words. `state` has room for two states.
ROLL_VECTORIZED void make_words(std::uint32_t* state, std::uint32_t* words) {
    for (std::size_t i = 0; i < kTwisterSize; ++i) {
        const std::uint32_t y = (state[i] & 0x80000000U) | (state[i + 1] & 0x7FFFFFFFU);
        state[i + kTwisterSize] =
            state[i + kTwisterMiddle] ^ (y >> 1U) ^ ((0U - (y & 1U)) & 0x9908B0DFU);
    }
    for (std::size_t i = 0; i < kTwisterSize; ++i) {
        std::uint32_t y = state[i + kTwisterSize];
        state[i] = y;
        y ^= y >> 11U;
        y ^= (y << 7U) & 0x9D2C5680U;
        y ^= (y << 15U) & 0xEFC60000U;
        words[i] = y ^ (y >> 18U);
    }
}

}  // namespace

MersenneTwister::MersenneTwister(std::uint32_t seed) {
    state_[0] = seed;
    for (std::uint32_t i = 1; i < kTwisterSize; ++i) {
        const std::uint32_t before = state_[i - 1];
        state_[i] = 1812433253U * (before ^ (before >> 30U)) + i;
    }
}

void MersenneTwister::refill() {
    make_words(state_.data(), words_.data());
    next_ = 0;
}

}  // namespace roll::data
