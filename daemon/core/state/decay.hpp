// Exponential decay in integer arithmetic, so that the result is the same on every machine.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::core {

using Milliseconds = std::chrono::milliseconds;

// Returns 2^(-elapsed / half_life) in units of 2^-32. With half_life = 0 nothing decays.
std::uint64_t decay_factor(Milliseconds elapsed, Milliseconds half_life);

// Returns the decayed use at the end of a period of length `elapsed`. `used` is the use at the
// beginning of the period, and `rate` is the use that each millisecond of the period adds. Old and
// added use decay: the result is used * f + rate * H / ln 2 * (1 - f), with H = half_life and
// f = 2^(-elapsed / H).
std::int64_t decayed(std::int64_t used, std::int64_t rate, Milliseconds elapsed,
                     Milliseconds half_life);

}  // namespace roll::core
