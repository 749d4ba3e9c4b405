#include "worker/train/process/memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

namespace roll::train {

namespace {

// Allocates tensors with malloc, but does not ask malloc for alignment. Instead, aligns the block
// itself and stores malloc's pointer before the block. With aligned requests, the process would use
// 1.5 times the memory: glibc would look for a larger free block instead of reusing a block of the
// same size.
struct Allocator final : c10::Allocator {
    static constexpr std::size_t kAlignment = 64;

    c10::DataPtr allocate(std::size_t size) override {
        if (size == 0) return {nullptr, c10::Device(c10::kCPU)};
        void* const block = std::malloc(size + kAlignment + sizeof(void*));
        if (block == nullptr) throw OutOfMemory(size);
        const auto room = reinterpret_cast<std::uintptr_t>(block) + sizeof(void*) + kAlignment - 1;
        void* const aligned = reinterpret_cast<void*>(room / kAlignment * kAlignment);
        static_cast<void**>(aligned)[-1] = block;
        return {aligned, aligned, &release, c10::Device(c10::kCPU)};
    }
    static void release(void* aligned) {
        if (aligned != nullptr) std::free(static_cast<void**>(aligned)[-1]);
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
