#include "worker/train/model/lazy_zeros.hpp"

#include <memory>

#include <ATen/ATen.h>
#include <sys/mman.h>

#include "worker/train/process/memory.hpp"

namespace roll::train {

at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options, Pages pages) {
    if (!options.device().is_cpu() || size == 0) return at::zeros({size}, options);
    const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    constexpr std::size_t kHugePage = std::size_t{2} << 20U;
    // Map more than `bytes`, so that the beginning can be aligned to a huge page.
    const std::size_t mapped = bytes + kHugePage;
    void* const memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw OutOfMemory(bytes);
    void* begin = memory;
    std::size_t room = mapped;
    std::align(kHugePage, bytes, begin, room);
    // ignore an error: the kernel then has no huge pages
    ::madvise(begin, bytes, pages == Pages::Huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const auto unmap = [memory, mapped](void*) { ::munmap(memory, mapped); };
    return at::from_blob(begin, {size}, unmap, options);
}

}  // namespace roll::train
