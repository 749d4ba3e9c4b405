#include "worker/train/process/memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

namespace roll::train {

namespace {

thread_local TensorUse use_now = TensorUse::Value;

// Counts the bytes of tensors. Many threads allocate tensors.
class Meter {
  public:
    void add(TensorUse use, std::int64_t bytes) {
        const std::scoped_lock lock(mutex_);
        now_.of[static_cast<std::size_t>(use)] += bytes;
        total_ += bytes;
        if (total_ <= most_) return;
        most_ = total_;
        peak_ = now_;
    }
    void reset_peak() {
        const std::scoped_lock lock(mutex_);
        most_ = total_;
        peak_ = now_;
    }
    TensorBytes now() {
        const std::scoped_lock lock(mutex_);
        return now_;
    }
    TensorBytes peak() {
        const std::scoped_lock lock(mutex_);
        return peak_;
    }

  private:
    std::mutex mutex_;
    TensorBytes now_, peak_;
    std::int64_t total_ = 0, most_ = 0;
};

Meter& meter() {
    static Meter meter;
    return meter;
}

// The record that the allocator stores before a tensor's memory.
struct Header {
    void* block = nullptr;  // the pointer that malloc returned
    std::int64_t bytes = 0;
    TensorUse use = TensorUse::Value;
};

// Allocates tensors with malloc, but does not ask malloc for alignment. Instead, the allocator
// aligns each block and stores a header before the block. With aligned requests, the process would
// use 1.5 times the memory: glibc would look for a larger free block instead of reusing a block of
// the same size.
struct Allocator final : c10::Allocator {
    static constexpr std::size_t kAlignment = 64;

    c10::DataPtr allocate(std::size_t size) override {
        if (size == 0) return {nullptr, c10::Device(c10::kCPU)};
        void* const block = std::malloc(size + kAlignment + sizeof(Header));
        if (block == nullptr) throw OutOfMemory(size);
        const auto room = reinterpret_cast<std::uintptr_t>(block) + sizeof(Header) + kAlignment - 1;
        void* const aligned = reinterpret_cast<void*>(room / kAlignment * kAlignment);
        const auto bytes = static_cast<std::int64_t>(size);
        static_cast<Header*>(aligned)[-1] = {block, bytes, use_now};
        meter().add(use_now, bytes);
        return {aligned, aligned, &release, c10::Device(c10::kCPU)};
    }
    static void release(void* aligned) {
        if (aligned == nullptr) return;
        const Header header = static_cast<Header*>(aligned)[-1];
        meter().add(header.use, -header.bytes);
        std::free(header.block);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t size) const override {
        default_copy_data(to, from, size);
    }
};

}  // namespace

void keep_freed_memory() {
    static Allocator allocator;
    c10::SetCPUAllocator(&allocator, /*priority=*/100);
    // The largest value that glibc accepts. Larger blocks are mapped, because they would leave
    // large holes in the heap.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

TensorUseScope::TensorUseScope(TensorUse use) : before_(std::exchange(use_now, use)) {}
TensorUseScope::~TensorUseScope() { use_now = before_; }

TensorBytes tensors_now() { return meter().now(); }
TensorBytes tensors_at_peak() { return meter().peak(); }
void reset_tensor_peak() { meter().reset_peak(); }

std::int64_t free_memory() {
    std::ifstream info("/proc/meminfo");
    for (std::string line; std::getline(info, line);) {
        long long kib = 0;
        if (std::sscanf(line.c_str(), "MemAvailable: %lld", &kib) == 1) return kib * 1024;
    }
    return 0;
}

// Reads this process's memory from /proc. Does not use getrusage, whose peak includes the program
// that ran before exec.
ProcessMemory process_memory() {
    ProcessMemory memory;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        long long kib = 0;
        if (std::sscanf(line.c_str(), "VmHWM: %lld", &kib) == 1) memory.peak = kib * 1024;
        if (std::sscanf(line.c_str(), "VmRSS: %lld", &kib) == 1) memory.resident = kib * 1024;
    }
    return memory;
}

}  // namespace roll::train
