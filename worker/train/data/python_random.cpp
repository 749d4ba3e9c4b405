#include "worker/train/data/python_random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace roll::train {
namespace {

// Fills the state of a Mersenne Twister as CPython's init_by_array does for one number (Matsumoto
// and Nishimura, mt19937ar.c).
struct SeedByArray {
    using result_type = std::uint32_t;

    template <class At>
    void generate(At begin, At end) const {
        const auto size = static_cast<std::uint32_t>(end - begin);
        const auto mixed = [&](std::uint32_t i, std::uint32_t factor) {
            const std::uint32_t before = begin[i - 1];
            return static_cast<std::uint32_t>(begin[i]) ^ ((before ^ (before >> 30U)) * factor);
        };
        begin[0] = 19650218U;
        for (std::uint32_t i = 1; i < size; ++i) {
            const std::uint32_t before = begin[i - 1];
            begin[i] = 1812433253U * (before ^ (before >> 30U)) + i;
        }
        std::uint32_t i = 1;
        const auto next = [&] {
            if (++i < size) return;
            begin[0] = begin[size - 1];
            i = 1;
        };
        for (std::uint32_t k = 0; k < size; ++k, next()) begin[i] = mixed(i, 1664525U) + seed;
        for (std::uint32_t k = 1; k < size; ++k, next()) begin[i] = mixed(i, 1566083941U) - i;
        begin[0] = 0x80000000U;
    }

    std::uint32_t seed;
};

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
    SeedByArray state{seed};
    generator_.seed(state);
}

// Returns a number below `limit`, as Random._randbelow does.
std::size_t PythonRandom::below(std::size_t limit) {
    const auto bits = static_cast<unsigned>(std::bit_width(limit));
    std::size_t drawn = limit;
    while (drawn >= limit) drawn = generator_() >> (32U - bits);
    return drawn;
}

std::vector<std::size_t> PythonRandom::sample(std::size_t population, std::size_t count) {
    // Draws the same numbers as Python's random.sample, which has two methods. If a set of the
    // drawn positions would take more memory than a copy of the list, random.sample draws from a
    // copy. Otherwise, it draws positions until `count` of them are different.
    double set_size = 21;
    if (count > 5)
        set_size +=
            std::pow(4, std::ceil(std::log(3.0 * static_cast<double>(count)) / std::log(4)));
    std::vector<std::size_t> drawn;
    if (static_cast<double>(population) <= set_size) {
        std::vector<std::size_t> pool(population);
        std::iota(pool.begin(), pool.end(), std::size_t{0});
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at = below(population - i);
            drawn.push_back(pool[at]);
            pool[at] = pool[population - i - 1];
        }
        return drawn;
    }
    while (drawn.size() < count) {
        const std::size_t at = below(population);
        if (std::ranges::find(drawn, at) == drawn.end()) drawn.push_back(at);
    }
    return drawn;
}

}  // namespace roll::train
