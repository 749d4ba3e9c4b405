// The shuffles of numpy.random.RandomState, and their random numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace roll::data {

inline constexpr std::size_t kTwisterSize = 624;  // number of words of a state

// Makes the random words of std::mt19937, which numpy.random.RandomState also uses. Makes some
// hundred words at a time, in loops that the compiler can vectorize.
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

// Shuffles `values` as numpy.random.RandomState.shuffle does with the same seed.
template <class T>
void numpy_shuffle(MersenneTwister& random, std::span<T> values);

// Shuffles the parts one after the other, each as numpy_shuffle() does. This thread draws the
// numbers of all parts and then calls `meanwhile`, which may draw further numbers. A second thread
// swaps the elements. Returns when both threads are done. Until then, each element needs 4 bytes of
// memory for its number.
void numpy_shuffle_beside(MersenneTwister& random,
                          const std::vector<std::span<std::int32_t>>& parts,
                          const std::function<void()>& meanwhile);

}  // namespace roll::data
