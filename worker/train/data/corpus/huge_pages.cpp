#include "worker/train/data/corpus/huge_pages.hpp"

#include <memory>

#include <sys/mman.h>
#include <unistd.h>

namespace roll::data {

void prefer_huge_pages(void* memory, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    // Ignore an error of madvise(): the kernel then has no huge pages, and normal pages are used.
    if (std::align(page, page, memory, bytes) != nullptr)
        ::madvise(memory, bytes / page * page, MADV_HUGEPAGE);
}

}  // namespace roll::data
