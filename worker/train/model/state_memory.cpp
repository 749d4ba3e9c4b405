#include "worker/train/model/state_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/plan/element_bytes.hpp"
#include "worker/train/model/disk_file.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Parts with fewer bytes than this are not read ahead, and not written immediately. A request to
// the disk for each norm of a model would take longer than the update.
constexpr std::size_t kLeast = 64 << 10;

constexpr Offloaded kOffloaded{"train.optimizer.offload", "optimizer state"};

// A file that is mapped into memory.
struct StateFile {
    StateFile(const fs::path& folder, std::size_t size);
    ~StateFile() { ::munmap(memory, bytes); }
    StateFile(const StateFile&) = delete;
    StateFile& operator=(const StateFile&) = delete;

    DiskFile file;
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
};

StateFile::StateFile(const fs::path& folder, std::size_t size)
    : file(folder, kOffloaded),
      bytes(size) {
    file.grow(static_cast<std::int64_t>(size));
    void* const mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
    if (mapped == MAP_FAILED) file.refuse(static_cast<std::int64_t>(size), errno);
    memory = static_cast<std::byte*>(mapped);
}

void free_file(void* file) { delete static_cast<StateFile*>(file); }

const StateFile* file_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.numel() == 0) return nullptr;
    const at::DataPtr& data = tensor.storage().data_ptr();
    return data.get_deleter() == &free_file ? static_cast<const StateFile*>(data.get_context())
                                            : nullptr;
}

// A range of whole pages of a file, in bytes.
struct PageRange {
    std::size_t begin = 0, size = 0;
};

// Returns the pages that hold the bytes [begin, begin + size) of the file. Bytes after the end of
// the file are ignored.
PageRange pages_of(const StateFile& file, std::size_t begin, std::size_t size) {
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t first = std::min(begin, file.bytes) / page * page;
    const std::size_t end = std::min(begin + size, file.bytes);
    return {first, end > first ? end - first : 0};
}

// Calls body(file, begin, size) with the bytes of the elements [begin, begin + count) of each
// tensor that is in a file.
template <class Body>
void for_bytes(std::span<const at::Tensor> states, std::int64_t begin, std::int64_t count,
               const Body& body) {
    for (const at::Tensor& state : states) {
        const StateFile* const file = file_of(state);
        if (file == nullptr || count == 0) continue;
        const auto element = static_cast<std::size_t>(state.element_size());
        const auto offset = static_cast<std::size_t>(
            static_cast<const std::byte*>(state.const_data_ptr()) - file->memory);
        body(*file, offset + static_cast<std::size_t>(begin) * element,
             static_cast<std::size_t>(count) * element);
    }
}

}  // namespace

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

StateMemory file_memory(const fs::path& folder) {
    return [folder](std::int64_t size, const at::TensorOptions& options) {
        if (size == 0) return at::zeros({0}, options);
        const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
        auto file = std::make_unique<StateFile>(folder, bytes);
        void* const memory = file->memory;
        return at::for_blob(memory, {size})
            .context(file.release(), &free_file)
            .options(options)
            .make_tensor();
    };
}

bool is_in_file(const at::Tensor& tensor) { return file_of(tensor) != nullptr; }

std::int64_t window_of(const at::Tensor& state) {
    return is_in_file(state)
               ? plan::kOffloadWindow / static_cast<std::int64_t>(state.element_size())
               : state.numel();
}

void fetch_after(std::span<const at::Tensor> states, std::int64_t begin, std::int64_t count) {
    for_bytes(states, begin, count, [](const StateFile& file, std::size_t first, std::size_t size) {
        const PageRange pages = pages_of(file, first + size, size);
        if (pages.size >= kLeast) ::madvise(file.memory + pages.begin, pages.size, MADV_WILLNEED);
    });
}

void let_go(std::span<const at::Tensor> states, std::int64_t begin, std::int64_t count) {
    for_bytes(states, begin, count, [](const StateFile& file, std::size_t first, std::size_t size) {
        const PageRange pages = pages_of(file, first, size);
        // Unmap the pages first. Before that, the kernel does not know of most changes to a page,
        // and would not write them.
        ::madvise(file.memory + pages.begin, pages.size, MADV_DONTNEED);
        if (pages.size >= kLeast)
            ::sync_file_range(file.file.descriptor(), static_cast<off_t>(pages.begin),
                              static_cast<off_t>(pages.size), SYNC_FILE_RANGE_WRITE);
    });
}

void let_go(const at::Tensor& state) {
    if (state.defined()) let_go({&state, 1}, 0, state.numel());
}

void copy_state(const at::Tensor& to, const at::Tensor& from) {
    if (!is_in_file(to) && !is_in_file(from)) return static_cast<void>(to.copy_(from));
    const at::Tensor both[] = {to.view(-1), from.view(-1)};
    const std::int64_t numel = to.numel(), window = std::min(window_of(to), window_of(from));
    for (std::int64_t begin = 0; begin < numel; begin += window) {
        const std::int64_t count = std::min(window, numel - begin);
        both[0].narrow(0, begin, count).copy_(both[1].narrow(0, begin, count));
        let_go(both, begin, count);
    }
}

}  // namespace roll::train
