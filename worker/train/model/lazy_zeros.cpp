#include "worker/train/model/lazy_zeros.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/mman.h>

namespace roll::train {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
// size of a piece in bytes; its pages are allocated and timed together
constexpr std::size_t kPiece = 2 * kHugePage;
// Speed of allocation, in bytes per second and thread, below which huge pages count as slow. The
// machine's own memory is eight times as fast; memory that a host must find first has two thirds of
// this speed or less.
constexpr double kSlow = 5e8;

void make_part(std::byte* part, std::size_t bytes) {
    using Clock = std::chrono::steady_clock;
    bool slow = false;
    for (std::size_t done = 0; done < bytes; done += kPiece) {
        const std::size_t size = std::min(kPiece, bytes - done);
        if (slow) ::madvise(part + done, size, MADV_NOHUGEPAGE);
        const auto start = Clock::now();
        // An error is ignored: on kernels before 5.14, which lack this call, the first write
        // allocates the pages.
        ::madvise(part + done, size, MADV_POPULATE_WRITE);
        const std::chrono::duration<double> took = Clock::now() - start;
        slow = slow || took.count() * kSlow > static_cast<double>(size);
    }
}

}  // namespace

at::Tensor lazy_zeros(std::int64_t size, const at::TensorOptions& options) {
    if (!options.device().is_cpu() || size == 0) return at::zeros({size}, options);
    const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    // larger, so that the beginning can be aligned to a huge page
    const std::size_t mapped = bytes + kHugePage;
    void* const memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(memory != MAP_FAILED, "not enough memory: tried to allocate ", bytes, " bytes");
    void* begin = memory;
    std::size_t room = mapped;
    std::align(kHugePage, bytes, begin, room);
    // An error is ignored, because it means that the kernel has no huge pages
    ::madvise(begin, bytes, MADV_HUGEPAGE);
    const auto unmap = [memory, mapped](void*) { ::munmap(memory, mapped); };
    return at::from_blob(begin, {size}, unmap, options);
}

void make_pages(const at::Tensor& flat) {
    if (!flat.is_cpu() || flat.numel() == 0) return;
    auto* const first = static_cast<std::byte*>(flat.data_ptr());
    const std::size_t bytes = flat.nbytes(), pieces = (bytes + kPiece - 1) / kPiece;
    at::parallel_for(0, static_cast<std::int64_t>(pieces), 1,
                     [&](std::int64_t i, std::int64_t end) {
                         const std::size_t begin = static_cast<std::size_t>(i) * kPiece;
                         make_part(first + begin,
                                   std::min(static_cast<std::size_t>(end) * kPiece, bytes) - begin);
                     });
}

}  // namespace roll::train
