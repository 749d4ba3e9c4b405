// The shuffles of numpy.random.RandomState.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "worker/train/data/corpus/mersenne_twister.hpp"

namespace roll::data {

// Shuffles `values` as numpy.random.RandomState.shuffle does with the same seed.
template <class T>
void numpy_shuffle(MersenneTwister& random, std::span<T> values);

// Shuffles the parts one after the other, each as numpy_shuffle() does. This thread draws the
// numbers of all parts and then calls `meanwhile`, which may draw further numbers. A second thread
// swaps the elements. Returns when both threads are done. Until then, the drawn numbers take 4
// bytes of memory for each element.
void numpy_shuffle_beside(MersenneTwister& random,
                          const std::vector<std::span<std::int32_t>>& parts,
                          const std::function<void()>& meanwhile);

}  // namespace roll::data
