#include "worker/train/model/random.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "common/hash.hpp"

namespace roll::train {
namespace {

constexpr auto low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr auto high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

// Returns a number in [0, 1) made from two random 32-bit words.
double unit(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t bits = (std::uint64_t{a} << 32U | b) >> 11U;
    return static_cast<double>(bits) * 0x1p-53;
}

struct Sequence {
    PhiloxKey key;
    std::uint64_t name;

    PhiloxCounter block(std::uint64_t index) const {
        return philox({low(index), high(index), low(name), high(name)}, key);
    }
    // Returns the two normal numbers of block `index`, by the Box-Muller transform.
    std::pair<double, double> normals(std::uint64_t index) const {
        const auto [a, b, c, d] = block(index);
        const double radius = std::sqrt(-2 * std::log1p(-unit(a, b)));
        const double angle = 2 * std::numbers::pi * unit(c, d);
        return {radius * std::cos(angle), radius * std::sin(angle)};
    }
};

Sequence sequence(std::uint64_t seed, std::string_view name) {
    return {{low(seed), high(seed)}, hash64(name)};
}

}  // namespace

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t x = std::uint64_t{0xD2511F53} * c[0],
                            y = std::uint64_t{0xCD9E8D57} * c[2];
        c = {high(y) ^ c[1] ^ key[0], low(y), high(x) ^ c[3] ^ key[1], low(x)};
        key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    }
    return c;
}

void fill_normal(const at::Tensor& tensor, double std, std::uint64_t seed, std::string_view name,
                 std::int64_t first) {
    const Sequence numbers = sequence(seed, name);
    const std::int64_t end = first + tensor.numel();
    AT_DISPATCH_FLOATING_TYPES(tensor.scalar_type(), "fill_normal", [&] {
        auto* values = tensor.data_ptr<scalar_t>();
        const auto fill = [&](std::int64_t begin_pair, std::int64_t end_pair) {
            for (std::int64_t pair = begin_pair; pair < end_pair; ++pair) {
                const auto [even, odd] = numbers.normals(static_cast<std::uint64_t>(pair));
                const std::int64_t at = 2 * pair;
                if (at >= first) values[at - first] = static_cast<scalar_t>(std * even);
                if (at + 1 < end) values[at + 1 - first] = static_cast<scalar_t>(std * odd);
            }
        };
        at::parallel_for(first / 2, (end + 1) / 2, 4096, fill);
    });
}

void fill_uniform(const at::Tensor& tensor, double bound, std::uint64_t seed, std::string_view name,
                  std::int64_t first) {
    AT_DISPATCH_FLOATING_TYPES(tensor.scalar_type(), "fill_uniform", [&] {
        auto* values = tensor.data_ptr<scalar_t>();
        at::parallel_for(0, tensor.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const double number = uniform(seed, name, static_cast<std::uint64_t>(first + i));
                values[i] = static_cast<scalar_t>(bound * (2 * number - 1));
            }
        });
    });
}

double uniform(std::uint64_t seed, std::string_view name, std::uint64_t index) {
    const PhiloxCounter words = sequence(seed, name).block(index);
    return unit(words[0], words[1]);
}

}  // namespace roll::train
