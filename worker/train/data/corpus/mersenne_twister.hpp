// Makes the random words of std::mt19937, which numpy.random.RandomState also uses. Makes some
// hundred words at a time, in loops that the compiler can vectorize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace roll::data {

inline constexpr std::size_t kTwisterSize = 624;  // number of words of a state

class MersenneTwister {
  public:
    explicit MersenneTwister(std::uint32_t seed);

    std::uint32_t operator()() {
        if (next_ == kTwisterSize) refill();
        return words_[next_++];
    }

  private:
    void refill();

    std::array<std::uint32_t, 2 * kTwisterSize> state_{};  // the state, and room for the next one
    std::array<std::uint32_t, kTwisterSize> words_{};
    std::size_t next_ = kTwisterSize;
};

}  // namespace roll::data
