// Huge pages for large arrays. Elements in random order are then read with fewer misses of the TLB,
// and new memory needs fewer page faults.
#pragma once

#include <cstddef>
#include <vector>

namespace roll::data {

// Asks the kernel for huge pages for memory that was not written yet.
void prefer_huge_pages(void* memory, std::size_t bytes);

// Returns a vector of `size` zeros, on huge pages if the kernel has any.
template <class T>
std::vector<T> zeros_on_huge_pages(std::size_t size) {
    std::vector<T> zeros;
    zeros.reserve(size);
    prefer_huge_pages(zeros.data(), size * sizeof(T));
    zeros.resize(size);
    return zeros;
}

}  // namespace roll::data
