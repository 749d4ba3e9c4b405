// The random words of std::mt19937, which are also numpy.random.RandomState's, made some hundred at
// a time by loops that the compiler can vectorize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace roll::data {

class MersenneTwister {
  public:
    explicit MersenneTwister(std::uint32_t seed);

    std::uint32_t operator()() {
        if (next_ == kSize) refill();
        return words_[next_++];
    }

  private:
    static constexpr std::size_t kSize = 624, kMiddle = 397;

    void refill();

    std::array<std::uint32_t, 2 * kSize> state_{};  // the state, and room for the next one
    std::array<std::uint32_t, kSize> words_{};
    std::size_t next_ = kSize;
};

}  // namespace roll::data
