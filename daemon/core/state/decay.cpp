#include "daemon/core/state/decay.hpp"

#include <algorithm>
#include <array>

namespace roll::core {
namespace {

__extension__ using Wide = __int128;

constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
constexpr std::uint64_t kOneOverLn2 = 6'196'328'019;  // 1 / ln 2, in units of 2^-32
// element i - 1 is 2^(-2^-i), in units of 2^-32
constexpr std::array<std::uint32_t, 24> kRoots = {
    0xb504f334, 0xd744fccb, 0xeac0c6e8, 0xf5257d15, 0xfa83b2db, 0xfd3e0c0d, 0xfe9e115c, 0xff4ecb59,
    0xffa75652, 0xffd3a752, 0xffe9d2b3, 0xfff4e91c, 0xfffa747f, 0xfffd3a3b, 0xfffe9d1d, 0xffff4e8e,
    0xffffa747, 0xffffd3a3, 0xffffe9d2, 0xfffff4e9, 0xfffffa74, 0xfffffd3a, 0xfffffe9d, 0xffffff4f};

std::uint64_t scaled(std::uint64_t value, std::uint64_t factor) {
    return static_cast<std::uint64_t>(Wide(value) * factor >> 32);
}

}  // namespace

std::uint64_t decay_factor(Milliseconds elapsed, Milliseconds half_life) {
    if (half_life.count() <= 0 || elapsed.count() <= 0) return kOne;
    const auto halves = elapsed / half_life;
    if (halves >= 32) return 0;
    const auto rest = static_cast<std::uint64_t>((elapsed % half_life).count());
    // `fraction` is rest / half_life as a binary fraction of 32 digits. If its i-th digit is 1,
    // multiply the factor by kRoots[i - 1], which is 2^(-2^-i).
    auto fraction = static_cast<std::uint64_t>((Wide(rest) << 32) / half_life.count());
    std::uint64_t factor = kOne;
    for (const std::uint32_t root : kRoots) {
        fraction <<= 1;
        if (fraction >= kOne) factor = scaled(factor, root);
        fraction &= kOne - 1;
    }
    return factor >> halves;
}

std::int64_t decayed(std::int64_t used, std::int64_t rate, Milliseconds elapsed,
                     Milliseconds half_life) {
    if (half_life.count() <= 0) return used;
    const std::uint64_t factor = decay_factor(elapsed, half_life);
    const Wide kept = Wide(used) * factor >> 32;
    const Wide span = Wide(half_life.count()) * kOneOverLn2 >> 32;
    const Wide added = Wide(rate) * span * (kOne - factor) >> 32;
    return static_cast<std::int64_t>(kept + added);
}

}  // namespace roll::core
