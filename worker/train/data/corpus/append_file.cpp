#include "worker/train/data/corpus/append_file.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roll::data {
namespace {

tl::unexpected<Error> fail_errno(const char* what, const std::filesystem::path& path) {
    const int number = errno;
    const bool refused = number == ENOSPC || number == EDQUOT || number == EACCES ||
                         number == EPERM || number == EROFS;
    return fail(
        refused ? ErrorCode::Refused : ErrorCode::Failed,
        std::string(what) + " " + path.string() + ": " + std::generic_category().message(number));
}

}  // namespace

Result<AppendFile> AppendFile::open(const std::filesystem::path& path, std::uint64_t size) {
    AppendFile file;
    file.path_ = path;
    file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file.fd_ < 0) return fail_errno("cannot create", path);
    struct stat info {};
    if (::fstat(file.fd_, &info) != 0) return fail_errno("cannot stat", path);
    if (static_cast<std::uint64_t>(info.st_size) < size)
        return fail(ErrorCode::Corrupt,
                    path.string() + " is shorter than it was after the last sync");
    if (::ftruncate(file.fd_, static_cast<off_t>(size)) != 0) return fail_errno("cannot cut", path);
    return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
}

AppendFile::~AppendFile() {
    if (fd_ >= 0) ::close(fd_);
}

Result<void> AppendFile::append(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("cannot write", path_);
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

Result<void> AppendFile::sync() {
    if (::fdatasync(fd_) != 0) return fail_errno("cannot sync", path_);
    return {};
}

}  // namespace roll::data
