#include "common/tensor/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/check.hpp"

namespace roll::tensor {
namespace {

tl::unexpected<Error> error_of(int number, const char* what, const std::filesystem::path& path) {
    const bool refused = number == ENOSPC || number == EDQUOT || number == EACCES ||
                         number == EPERM || number == EROFS;
    return fail(
        refused ? ErrorCode::Refused : ErrorCode::Failed,
        std::string(what) + " " + path.string() + ": " + std::generic_category().message(number));
}

// The disk begins to write each large piece at once, and what it has written of those before leaves
// the page cache. The sync at the end finds little to do, the same pages serve again and again, and
// what others read stays cached. Errors come back at the sync.
void write_behind(int fd, std::int64_t offset, std::int64_t size) {
    constexpr std::int64_t kWorthwhile = std::int64_t{1} << 20U;
    constexpr std::int64_t kBehind = std::int64_t{256} << 20U;
    if (size < kWorthwhile) return;
    const std::int64_t begin = std::max<std::int64_t>(offset - kBehind, 0);
    ::posix_fadvise(fd, begin, offset + size - begin, POSIX_FADV_DONTNEED);
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return error_of(errno, "cannot create", path);
    return OutputFile(fd, path);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
}

tl::unexpected<Error> OutputFile::fail_errno(const char* what) const {
    return error_of(errno, what, path_);
}

Result<void> OutputFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    ROLL_CHECK(fd_ >= 0);
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

Result<void> OutputFile::finish() {
    ROLL_CHECK(fd_ >= 0);
    if (::fsync(fd_) != 0) return fail_errno("cannot sync");
    if (::close(std::exchange(fd_, -1)) != 0) return fail_errno("cannot close");
    return {};
}

}  // namespace roll::tensor
