#include "worker/train/data/corpus/numpy_shuffle.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <future>
#include <memory>
#include <utility>

#include "worker/train/data/corpus/huge_pages.hpp"

namespace roll::data {
namespace {

constexpr std::size_t kDraws = 4096;     // number of elements whose partners are drawn at once
constexpr std::size_t kSwapsAhead = 64;  // a partner is prefetched this many swaps before its swap

// A shuffle swaps each element, from the last one down to element 1, with its partner. The partner
// of element i is the element at a random index in [0, i]. To draw an index like numpy's
// random_interval(), this function draws words until the low bits of a word are at most i. It draws
// the partners of element i and of elements before it, without a branch for rejected words. Returns
// how many partners it has drawn.
std::size_t draw_partners(MersenneTwister& random, std::size_t i,
                          std::span<std::uint32_t> partners) {
    const std::size_t mask = std::bit_ceil(i + 1) - 1;  // the same for all i above mask / 2
    const std::size_t count = std::min(partners.size(), i - mask / 2);
    const auto bits = static_cast<std::uint32_t>(mask);
    const auto last = static_cast<std::uint32_t>(i);
    for (std::uint32_t k = 0; k < count;) {
        const std::uint32_t number = random() & bits;
        partners[k] = number;
        k += number <= last - k ? 1 : 0;
    }
    return count;
}

// Swaps element i and the elements before it with their partners.
template <class T>
void swap_with(std::span<const std::uint32_t> partners, std::size_t i, std::span<T> values) {
    const std::size_t count = partners.size();
    for (std::size_t k = 0; k < count; ++k) {
        __builtin_prefetch(&values[partners[std::min(k + kSwapsAhead, count - 1)]], 1);
        std::swap(values[i - k], values[partners[k]]);
    }
}

std::size_t last_of(std::size_t size) { return size - std::min<std::size_t>(size, 1); }

// The partners of all elements of consecutive shuffles, in the order of the swaps.
struct Partners {
    explicit Partners(std::size_t size)
        : numbers(std::make_unique_for_overwrite<std::uint32_t[]>(size)) {
        prefer_huge_pages(numbers.get(), size * sizeof(std::uint32_t));
    }

    std::span<std::uint32_t> from(std::size_t at, std::size_t count) const {
        return {numbers.get() + at, count};
    }
    std::unique_ptr<std::uint32_t[]> numbers;
    std::atomic<std::size_t> drawn = 0;
};

void draw_all(MersenneTwister& random, const std::vector<std::span<std::int32_t>>& parts,
              Partners& partners) {
    std::size_t drawn = 0;
    for (const std::span<std::int32_t> part : parts)
        for (std::size_t i = last_of(part.size()); i > 0;) {
            const std::size_t count =
                draw_partners(random, i, partners.from(drawn, std::min(kDraws, i)));
            i -= count;
            drawn += count;
            partners.drawn.store(drawn, std::memory_order_release);
            partners.drawn.notify_one();
        }
}

// Swaps the elements of all parts, as soon as their partners are drawn.
void swap_all(const std::vector<std::span<std::int32_t>>& parts, const Partners& partners) {
    std::size_t swapped = 0, drawn = 0;
    for (const std::span<std::int32_t> part : parts)
        for (std::size_t i = last_of(part.size()); i > 0;) {
            partners.drawn.wait(swapped, std::memory_order_acquire);
            drawn = partners.drawn.load(std::memory_order_acquire);
            const std::size_t count = std::min(drawn - swapped, i);
            swap_with<std::int32_t>(partners.from(swapped, count), i, part);
            i -= count;
            swapped += count;
        }
}

}  // namespace

template <class T>
void numpy_shuffle(MersenneTwister& random, std::span<T> values) {
    std::array<std::uint32_t, kDraws> partners{};
    for (std::size_t i = last_of(values.size()); i > 0;) {
        const std::size_t count = draw_partners(random, i, partners);
        swap_with(std::span<const std::uint32_t>(partners).first(count), i, values);
        i -= count;
    }
}

template void numpy_shuffle(MersenneTwister&, std::span<std::int32_t>);
template void numpy_shuffle(MersenneTwister&, std::span<std::uint32_t>);

void numpy_shuffle_beside(MersenneTwister& random,
                          const std::vector<std::span<std::int32_t>>& parts,
                          const std::function<void()>& meanwhile) {
    std::size_t elements = 0;
    for (const std::span<std::int32_t> part : parts) elements += part.size();
    Partners partners(elements);
    // If the system starts no more threads, std::async swaps the elements in wait().
    const std::future<void> swaps = std::async([&] { swap_all(parts, partners); });
    draw_all(random, parts, partners);
    meanwhile();
    swaps.wait();
}

}  // namespace roll::data
