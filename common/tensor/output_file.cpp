#include "common/tensor/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/tensor/earlier_file.hpp"

namespace roll::tensor {
namespace {

tl::unexpected<Error> error_of(int number, const char* what, const std::filesystem::path& path) {
    const bool refused = number == ENOSPC || number == EDQUOT || number == EACCES ||
                         number == EPERM || number == EROFS;
    return fail(
        refused ? ErrorCode::Refused : ErrorCode::Failed,
        std::string(what) + " " + path.string() + ": " + std::generic_category().message(number));
}

// Starts writing a large piece to disk at once, and drops pages that were written earlier from the
// page cache. The final fsync is then short, and other programs' files stay in the cache. The fsync
// reports write errors.
void write_behind(int fd, std::int64_t offset, std::int64_t size) {
    constexpr std::int64_t kWorthwhile = std::int64_t{1} << 20U;
    constexpr std::int64_t kBehind = std::int64_t{256} << 20U;
    if (size < kWorthwhile) return;
    const std::int64_t begin = std::max<std::int64_t>(offset - kBehind, 0);
    ::posix_fadvise(fd, begin, offset + size - begin, POSIX_FADV_DONTNEED);
}

}  // namespace

OutputFile::OutputFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

// `flags`: O_TRUNC, or 0 to keep the content of an existing file.
Result<void> OutputFile::open(int flags) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    return fd_ < 0 ? Result<void>(error_of(errno, "cannot create", path_)) : Result<void>();
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path,
                                      const std::filesystem::path& earlier) {
    OutputFile file(-1, path);
    if (!earlier.empty()) file.earlier_ = EarlierFile::open(earlier);
    if (file.earlier_ == nullptr) ROLL_TRY_VOID(file.open(O_TRUNC));
    return file;
}

Result<OutputFile> OutputFile::open_shared(const std::filesystem::path& path) {
    OutputFile file(-1, path);
    ROLL_TRY_VOID(file.open(0));
    return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      direct_fd_(std::exchange(other.direct_fd_, -1)),
      path_(std::move(other.path_)),
      earlier_(std::move(other.earlier_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(direct_fd_, other.direct_fd_);
    std::swap(path_, other.path_);
    std::swap(earlier_, other.earlier_);
    return *this;
}

OutputFile::~OutputFile() {
    if (direct_fd_ >= 0) ::close(direct_fd_);
    if (fd_ >= 0) ::close(fd_);
}

void OutputFile::bypass_cache() {
    direct_fd_ = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
}

tl::unexpected<Error> OutputFile::fail_errno(const char* what) const {
    return error_of(errno, what, path_);
}

Result<void> OutputFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    if (earlier_ != nullptr) {
        const auto others = [this](std::int64_t at, std::span<const std::byte> same) {
            return write_out(at, same);
        };
        ROLL_TRY(const bool same, earlier_->holds(
                                      offset, bytes, [this] { return open(O_TRUNC); }, others));
        if (same) return {};
    }
    return write_out(offset, bytes);
}

Result<void> OutputFile::write_out(std::int64_t offset, std::span<const std::byte> bytes) {
    ROLL_CHECK(fd_ >= 0);
    if (write_direct(offset, bytes)) return {};
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("cannot write");
        write_behind(fd_, offset, n);
        offset += n;
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

// Returns false if the bytes must be written in another way, for example because they are not
// aligned.
bool OutputFile::write_direct(std::int64_t offset, std::span<const std::byte> bytes) const {
    constexpr std::size_t kUnit = 4096;
    const bool aligned = static_cast<std::size_t>(offset) % kUnit == 0 &&
                         reinterpret_cast<std::uintptr_t>(bytes.data()) % kUnit == 0 &&
                         bytes.size() % kUnit == 0;
    return aligned && direct_fd_ >= 0 &&
           ::pwrite(direct_fd_, bytes.data(), bytes.size(), offset) == std::ssize(bytes);
}

Result<void> OutputFile::finish() {
    if (earlier_ != nullptr && earlier_->become(path_)) return {};
    // All content was equal to the earlier file, but the earlier file is longer or cannot be
    // linked. Write the content to a new file.
    if (earlier_ != nullptr && fd_ < 0) {
        ROLL_TRY_VOID(open(O_TRUNC));
        ROLL_TRY_VOID(earlier_->give([this](std::int64_t at, std::span<const std::byte> same) {
            return write_out(at, same);
        }));
    }
    ROLL_CHECK(fd_ >= 0);
    if (::fsync(fd_) != 0) return fail_errno("cannot sync");
    if (::close(std::exchange(fd_, -1)) != 0) return fail_errno("cannot close");
    return {};
}

}  // namespace roll::tensor
