// Use that counts half after each half-life, in whole numbers: the same on every machine.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::core {

using Milliseconds = std::chrono::milliseconds;

// 2^(-elapsed / half_life) in units of 2^-32. A half-life of 0: nothing decays.
std::uint64_t decay_factor(Milliseconds elapsed, Milliseconds half_life);

// `used` decayed over `elapsed`, and what `rate` a millisecond added meanwhile, decaying as it
// came: used f + rate H / ln 2 (1 - f), f = 2^(-elapsed / H).
std::int64_t decayed(std::int64_t used, std::int64_t rate, Milliseconds elapsed,
                     Milliseconds half_life);

}  // namespace roll::core
