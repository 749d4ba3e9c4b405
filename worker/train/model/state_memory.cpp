#include "worker/train/model/state_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "worker/plan/element_bytes.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Parts with fewer bytes than this are neither read ahead nor written at once: a request to the
// disk for each norm of a model would take longer than the update.
constexpr std::size_t kLeast = 64 << 10;

[[noreturn]] void refuse_offload(const std::string& sentence) {
    throw RankFailure(status_of(ErrorCode::Refused), "train.optimizer.offload: " + sentence);
}

// A file without a name, mapped into memory.
struct StateFile {
    explicit StateFile(const fs::path& folder, std::size_t size);
    ~StateFile() {
        if (memory != nullptr) ::munmap(memory, bytes);
        if (descriptor >= 0) ::close(descriptor);
    }
    StateFile(const StateFile&) = delete;
    StateFile& operator=(const StateFile&) = delete;

    int descriptor = -1;
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
};

// Opens a file that no folder lists. Not every file system has O_TMPFILE. On one that does not, the
// file has a name until the second call returns.
int open_unnamed(const fs::path& folder) {
    const int opened = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (opened >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return opened;
    std::string name = folder / "roll-state-XXXXXX";
    const int made = ::mkostemp(name.data(), O_CLOEXEC);
    if (made >= 0) ::unlink(name.c_str());
    return made;
}

StateFile::StateFile(const fs::path& folder, std::size_t size) : bytes(size) {
    const auto refuse_with = [&](int error) {
        std::error_code ignored;
        const auto space = fs::space(folder, ignored);
        refuse_offload(
            "cannot keep " + plan::bytes_text(static_cast<std::int64_t>(size)) +
            " of optimizer state in " + folder.string() + ", where " +
            plan::bytes_text(static_cast<std::int64_t>(space.available)) +
            " are free: " + std::strerror(error) +
            "; free space there, set TMPDIR of roll-worker to a folder with more space, or set "
            "the key to none");
    };
    descriptor = open_unnamed(folder);
    if (descriptor < 0) refuse_with(errno);
    // Reserve the space now. If a page found no space later, the kernel would kill the process.
    int reserved = EINTR;
    while (reserved == EINTR) reserved = ::posix_fallocate(descriptor, 0, static_cast<off_t>(size));
    void* mapped = MAP_FAILED;
    if (reserved == 0)
        mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) {
        const int error = reserved != 0 ? reserved : errno;
        ::close(descriptor);
        refuse_with(error);
    }
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

// Returns the pages that hold the bytes [begin, begin + size) of the file, as far as they exist.
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

void check_is_on_disk(const fs::path& folder) {
    struct statfs found {};
    if (::statfs(folder.c_str(), &found) != 0)
        refuse_offload("cannot use the folder " + folder.string() + ": " + std::strerror(errno) +
                       "; set the job's output to a folder on a disk");
    const auto type = static_cast<unsigned long>(found.f_type);
    if (type == TMPFS_MAGIC || type == RAMFS_MAGIC)
        refuse_offload(
            "the folder " + folder.string() +
            " is a tmpfs, which keeps its files in memory, so the state would need as much "
            "memory as without the key; set TMPDIR of roll-worker, or the job's output, to "
            "a folder on a disk");
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
        // Unmap first: the kernel learns of most changes to a page only when it unmaps the page.
        ::madvise(file.memory + pages.begin, pages.size, MADV_DONTNEED);
        if (pages.size >= kLeast)
            ::sync_file_range(file.descriptor, static_cast<off_t>(pages.begin),
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
