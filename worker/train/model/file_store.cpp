#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include "worker/train/model/disk_file.hpp"
#include "worker/train/model/extents.hpp"
#include "worker/train/model/saved_store.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// In the file, the bytes of each stored tensor begin at a multiple of this number of bytes. This is
// the page size of most machines.
constexpr std::int64_t kPage = 4096;

// A store in a file. The store reads and writes the file with system calls, and does not map the
// file into memory. Therefore, an error of the disk becomes an error message and does not kill the
// process. The pages of the file do not count as memory of the process. The kernel writes the pages
// to the disk when memory is short.
class FileStore final : public SavedStore, public std::enable_shared_from_this<FileStore> {
  public:
    FileStore(const fs::path& folder, std::int64_t reserved, std::int64_t least)
        : SavedStore(at::kCPU, least),
          file_(folder, {"train.activation_offload", "saved activations"}) {
        if (reserved > 0) grow(reserved);
    }

    std::unique_ptr<KeptBytes> keep(const at::Tensor& bytes_N) override;
    void free(std::int64_t begin, std::int64_t size);
    const DiskFile& file() const { return file_; }

  private:
    void grow(std::int64_t bytes) {
        const std::int64_t begin = file_.bytes();
        file_.grow(bytes);
        free_.give(begin, bytes);
    }

    DiskFile file_;
    Extents free_;
};

// Calls move(memory, bytes, offset), which is ::pread or ::pwrite, until all bytes are moved.
// Returns 0, or the value of errno.
template <class Move>
int move_all(std::byte* memory, std::int64_t bytes, std::int64_t offset, const Move& move) {
    for (std::int64_t done = 0; done < bytes;) {
        errno = 0;
        const ssize_t moved =
            move(memory + done, static_cast<std::size_t>(bytes - done), offset + done);
        if (moved <= 0 && errno == EINTR) continue;
        if (moved <= 0) return moved == 0 ? EIO : errno;
        done += moved;
    }
    return 0;
}

class InFile final : public KeptBytes {
  public:
    InFile(std::shared_ptr<FileStore> store, std::int64_t begin, std::int64_t bytes)
        : store_(std::move(store)),
          begin_(begin),
          bytes_(bytes) {}
    ~InFile() override { store_->free(begin_, bytes_); }
    InFile(const InFile&) = delete;
    InFile& operator=(const InFile&) = delete;

    void fetch() override {
        ::posix_fadvise(store_->file().descriptor(), begin_, bytes_, POSIX_FADV_WILLNEED);
    }

    at::Tensor take() override {
        at::Tensor bytes_N = at::empty({bytes_}, at::kByte);
        const DiskFile& file = store_->file();
        const int error = move_all(static_cast<std::byte*>(bytes_N.data_ptr()), bytes_, begin_,
                                   [&](std::byte* memory, std::size_t size, std::int64_t offset) {
                                       return ::pread(file.descriptor(), memory, size, offset);
                                   });
        if (error != 0) file.refuse_to_read(bytes_, error);
        return bytes_N;
    }

  private:
    std::shared_ptr<FileStore> store_;
    std::int64_t begin_, bytes_;
};

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::unique_ptr<KeptBytes> FileStore::keep(const at::Tensor& bytes_N) {
    const std::int64_t bytes = bytes_N.numel(), size = whole_pages(bytes);
    std::optional<std::int64_t> begin = free_.take(size);
    if (!begin) {
        grow(size);
        begin = free_.take(size);
    }
    count(bytes);
    auto kept = std::make_unique<InFile>(shared_from_this(), *begin, bytes);
    const int error = move_all(static_cast<std::byte*>(bytes_N.data_ptr()), bytes, *begin,
                               [&](const std::byte* memory, std::size_t part, std::int64_t offset) {
                                   return ::pwrite(file_.descriptor(), memory, part, offset);
                               });
    if (error != 0) file_.refuse(bytes, error);
    return kept;
}

void FileStore::free(std::int64_t begin, std::int64_t bytes) {
    free_.give(begin, whole_pages(bytes));
    count(-bytes);
}

}  // namespace

std::shared_ptr<SavedStore> file_store(const fs::path& folder, std::int64_t reserved,
                                       std::int64_t least) {
    return std::make_shared<FileStore>(folder, whole_pages(reserved), least);
}

}  // namespace roll::train
